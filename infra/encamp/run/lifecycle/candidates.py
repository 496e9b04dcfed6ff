"""Jobs of an environment that may need an end: from the records, the engine's stacks, and the cloud's listings.

None of the three is trusted alone: a record may be lost, a state deleted, a create never answered. What carries another
owner's or another environment's labels is not even looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError
from encamp.plan.summary import JobSummary
from encamp.project import project_folder
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.run_errors import UnreadableStateError
from encamp.run.engine.workspace import committed_config
from encamp.run.lifecycle.listing import Things, things_of_jobs
from encamp.run.lifecycle.target import open_cluster
from encamp.run.store.intent import Intent, found_intent, with_job_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.run.engine.stack_state import StackState
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.target import Target
    from encamp.run.store.records import Records, RunRecord


@dataclass(frozen=True)
class Candidate:
    """A job without proof that it is gone, or with one that the cloud contradicts.

    Attributes:
        has_stack: the engine lists its stack.
        record: None if it was started without one, or its record is lost.
        state: of a stack that told of the job, None where something else did.
        listed: what the cloud listed of it, looked for only where neither record nor stack told of it.
    """

    intent: Intent
    has_stack: bool
    record: RunRecord | None
    state: StackState | None = None
    listed: tuple[str, ...] = ()

    @property
    def committed(self) -> bool:
        """Whether its stack's config lies in the repository and stays there."""
        return not self.intent.folder


@dataclass
class Search:
    """Looks for jobs of one environment.

    Args:
        only: a job's id or cloud name: no other one is looked for.

    Attributes:
        troubles: what could not be looked at, by name: a stack, or the listing of a kind.
        unreadable: stacks without a job that is known, whose state no engine can read.
    """

    context: Context
    records: Records
    target: Target
    only: str | None = None
    troubles: list[tuple[str, EncampError]] = field(default_factory=list)
    unreadable: dict[str, UnreadableStateError] = field(default_factory=dict)
    _recorded: list[RunRecord] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    _stacks: set[str] = field(default_factory=set)

    def run(self) -> tuple[list[Candidate], list[Things]]:
        """Return every job that may need an end, and things that do not say which job they are of.

        What waits to be begun has nothing that could be ended.

        Raises:
            EngineError: the engine cannot be asked for its stacks.
        """
        self._recorded = self.records.records()
        engine = JobEngine(project_folder(), self.context.show)
        found = list(self._from_records(engine))
        if self.only is None or not found:
            found += self._from_stacks(engine)
        if self.only is not None and found:
            return _begun(found), []
        things = things_of_jobs(self.context.client, self.target, self._known, self._note)
        found += [one for one in map(self._from_cloud, things.values()) if one is not None]
        return _begun(found), [one for one in things.values() if one.name not in self._known and self.only is None]

    def _note(self, what: str, error: EncampError) -> None:
        self.troubles.append((what, error))

    def _wanted(self, intent: Intent) -> bool:
        return self.only is None or self.only in {intent.job_id, intent.name}

    def _from_records(self, engine: JobEngine) -> Iterator[Candidate]:
        stacks = set(engine.stacks()) if self.only is None else None
        for record in self._recorded:
            intent = self._intent_of(record)
            if record.torn_down or intent is None or not self._wanted(intent):
                continue
            self._known.add(intent.name)
            self._stacks.add(intent.stack)
            yield Candidate(intent, engine.has(intent.stack) if stacks is None else intent.stack in stacks, record)

    def _intent_of(self, record: RunRecord | None) -> Intent | None:
        """Return the intent of a record; None if it is lost, or of another environment."""
        if record is None or record.intent is None:
            return None
        intent = Intent.read(record.intent)
        return intent if intent is not None and intent.environment == self.target.stack else None

    def _from_stacks(self, engine: JobEngine) -> Iterator[Candidate]:
        for stack in engine.stacks():
            config = committed_config(stack)
            if stack in self._stacks or (config is not None and "encamp:job" not in config):
                continue
            try:
                found = self._of_stack(engine.state(stack), stack, committed=config is not None)
            except UnreadableStateError as error:
                self.unreadable[stack] = error
                continue
            except EncampError as error:
                self._note(f"stack {stack}", error)
                continue
            if found is not None and self._wanted(found.intent):
                self._known.add(found.intent.name)
                yield found

    def _of_stack(self, state: StackState, stack: str, *, committed: bool) -> Candidate | None:
        """Return the job of a stack; None if the stack holds no job of this environment."""
        declared = state.declared() if state.resources or state.has_pending else {}
        summary = JobSummary.read(declared)
        if summary is None or not self.target.owns(summary.labels):
            return None
        intent = self._found(summary, stack, deadline=float(declared["deadline"]), committed=committed)
        if not intent.replicas:
            # An older version's outputs do not name the replicas, its JobSet does.
            intent = with_job_set(intent, self._job_set(summary) or {})
        return Candidate(intent, has_stack=True, record=self._record_of(intent.job_id), state=state)

    def _found(self, summary: JobSummary, stack: str, *, deadline: float, committed: bool) -> Intent:
        folder = "" if committed else str(self.context.job_folder(summary.name))
        here = self.target
        return found_intent(
            summary, here.outputs, environment_stack=here.stack, stack=stack, folder=folder, deadline=deadline
        )

    def _job_set(self, summary: JobSummary) -> dict[str, Any] | None:
        where = self.target.outputs
        cluster = open_cluster(self.context.client, where, where.cluster_path)
        if cluster is None:
            return None
        try:
            return cluster.get("jobsets", summary.namespace, summary.name)
        finally:
            cluster.close()

    def _record_of(self, job_id: str) -> RunRecord | None:
        return next((one for one in self._recorded if one.job_id == job_id), None)

    def _from_cloud(self, things: Things) -> Candidate | None:
        """Return a job that only the cloud tells of, where its record or its JobSet still says which one it is."""
        record = next((one for one in self._recorded if one.name == things.name), None)
        intent = self._intent_of(record)
        summary = things.summary
        if intent is None and summary is not None and summary.labels == things.labels:
            deadline = things.deadline or 0.0
            intent = self._found(summary, f"job-{summary.name}", deadline=deadline, committed=False)
            record = record or self._record_of(intent.job_id)
        if intent is None or not self._wanted(intent):
            return None
        self._known.add(things.name)
        has_stack = self.unreadable.pop(intent.stack, None) is not None
        return Candidate(intent, has_stack=has_stack, record=record, listed=things.found)


def _begun(candidates: list[Candidate]) -> list[Candidate]:
    return [one for one in candidates if one.record is None or not one.record.waiting]
