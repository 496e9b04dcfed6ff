"""Jobs that may need an end: from the records, from the engine's stacks, and from what the cloud lists.

None of the three is trusted alone: a record may be lost, a state deleted, a create never answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JOB_LABEL, described
from encamp.cloud.resources import Container, ServiceAccounts
from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.run.engine import JobEngine, StackOutputs
from encamp.run.intent import Intent, found_intent
from encamp.run.workspace import committed_config, committed_stacks, project_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.run.context import Context
    from encamp.run.engine import EnvironmentOutputs
    from encamp.run.records import Records, RunRecord

ENVIRONMENT_LABEL = "encamp-environment"
DEADLINE_LABEL = "encamp-deadline"


@dataclass(frozen=True)
class Candidate:
    """A job without proof that it is gone.

    Attributes:
        committed: its stack's config lies in the repository and stays there.
        has_stack: the engine lists its stack.
        record: None where it was started without one.
    """

    intent: Intent
    committed: bool
    has_stack: bool
    record: RunRecord | None


@dataclass(frozen=True)
class Stranger:
    """Things with a job's labels that neither a record nor a stack here knows."""

    labels: dict[str, str]
    environment: str
    deadline: float | None
    found: tuple[str, ...]


def candidates(context: Context, records: Records) -> Iterator[Candidate]:
    """Every job of the records that is not gone, and every job stack of the engine."""
    engine = JobEngine(project_file().parent, context.show)
    stacks = engine.stacks()
    seen: set[str] = set()
    for record in records.records():
        if record.torn_down or record.intent is None:
            continue
        intent = Intent.from_json(record.intent)
        seen.add(intent.stack)
        yield Candidate(intent, not intent.folder, intent.stack in stacks, record)
    for stack in stacks:
        if stack not in seen:
            intent = _intent_of(context, engine, stack)
            if intent is not None:
                yield Candidate(intent, committed_config(stack) is not None, has_stack=True, record=None)


def _intent_of(context: Context, engine: JobEngine, stack: str) -> Intent | None:
    """The intent of a stack that no record knows, None where it is no job's or holds nothing."""
    outputs = StackOutputs.read(engine.outputs(stack))
    if outputs is None:
        return None
    environment_stack = _environment_stack(stack, outputs)
    environment = context.environment(environment_stack)
    cluster = context.cluster(environment)
    try:
        job_set = cluster.get("jobsets", outputs.namespace, outputs.job_set)
    finally:
        cluster.close()
    return found_intent(outputs, job_set or {}, environment, environment_stack=environment_stack, stack=stack)


def _environment_stack(stack: str, outputs: StackOutputs) -> str:
    config = committed_config(stack) or {}
    return str(config.get("encamp:environmentStack") or outputs.labels.get(ENVIRONMENT_LABEL, ""))


def environments(context: Context) -> Iterator[tuple[str, EnvironmentOutputs]]:
    """The committed environments that are up, by the names of their stacks."""
    for stack in committed_stacks():
        if "encamp:environment" not in (committed_config(stack) or {}):
            continue
        try:
            yield stack, context.environment(stack)
        except EncampError:
            continue


def strangers(context: Context, known: set[str]) -> Iterator[Stranger]:
    """Things of jobs that the clouds of the committed environments list, and nothing here knows."""
    for stack, environment in environments(context):
        found: dict[tuple[tuple[str, str], ...], list[tuple[str, float | None]]] = {}
        for name, labels in _labelled(context, environment):
            if labels.get(JOB_LABEL) and labels[JOB_LABEL] not in known:
                deadline = labels.get(DEADLINE_LABEL)
                own = {key: value for key, value in labels.items() if key.startswith("encamp-")}
                own.pop(DEADLINE_LABEL, None)
                entry = (name, float(deadline) if deadline and deadline.isdigit() else None)
                found.setdefault(tuple(sorted(own.items())), []).append(entry)
        for key, entries in found.items():
            deadlines = [deadline for _, deadline in entries if deadline is not None]
            names = tuple(name for name, _ in entries)
            yield Stranger(dict(key), stack, max(deadlines) if deadlines else None, names)


def _labelled(context: Context, environment: EnvironmentOutputs) -> Iterator[tuple[str, dict[str, str]]]:
    for pool in Container(context.client).node_pools(environment.cluster_path):
        config = pool.get("config", {})
        yield f"node pool {pool['name']}", config.get("resourceLabels") or config.get("labels") or {}
    for bucket in Storage(context.client).buckets(environment.project):
        yield f"bucket gs://{bucket['name']}", bucket.get("labels") or {}
    for account in ServiceAccounts(context.client).accounts(environment.project):
        yield f"service account {account['email']}", described(account.get("description", ""))
