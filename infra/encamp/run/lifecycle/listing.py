"""The cloud's listing of an environment's resources, by job, with the summaries that resources carry."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JOB_LABEL, label_selector
from encamp.cloud.listings import LISTINGS, Scope, listed
from encamp.errors import EncampError
from encamp.kinds.objects import OBJECTS
from encamp.plan.model import DEADLINE_LABEL
from encamp.plan.summary import SUMMARY_ANNOTATION, JobSummary
from encamp.run.lifecycle.target import open_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from encamp.cloud.rest import GoogleClient
    from encamp.kinds.model import GoogleKind
    from encamp.run.lifecycle.target import Target


@dataclass(frozen=True)
class Thing:
    """A listed resource; ``summary`` is that of its job, if it carries one."""

    name: str
    labels: Mapping[str, str]
    summary: JobSummary | None = None


@dataclass(frozen=True)
class Things:
    """All listed resources of one job.

    Attributes:
        name: the job's cloud name.
        labels: owner, environment and job.
        deadline: the latest of theirs, None if none has one.
        found: what each is called.
    """

    name: str
    labels: dict[str, str]
    deadline: float | None = None
    found: tuple[str, ...] = ()
    summary: JobSummary | None = None

    def plus(self, thing: Thing) -> Things:
        """Return these with one more."""
        said = thing.labels.get(DEADLINE_LABEL, "")
        deadlines = [one for one in (self.deadline, float(said) if said.isdigit() else None) if one is not None]
        return replace(
            self,
            deadline=max(deadlines, default=None),
            found=(*self.found, thing.name),
            summary=self.summary or thing.summary,
        )


def things_of_jobs(
    client: GoogleClient, target: Target, known: Collection[str], trouble: Callable[[str, EncampError], None]
) -> dict[str, Things]:
    """Return everything with the labels of a job of this environment and owner, by the job's cloud name.

    Jobs in ``known`` are left out. A kind that cannot be listed is told to ``trouble``; the others are listed.
    """
    found: dict[str, Things] = {}
    for kind, listing in _listings(client, target).items():
        try:
            for thing in listing():
                job = thing.labels.get(JOB_LABEL)
                if job and job not in known and target.owns(thing.labels):
                    found[job] = found.get(job, Things(job, {**target.labels, JOB_LABEL: job})).plus(thing)
        except EncampError as error:
            trouble(f"the cloud's {kind}", error)
    return found


def _listings(client: GoogleClient, target: Target) -> dict[str, Callable[[], Iterable[Thing]]]:
    where = target.outputs
    scope = Scope(where.project, where.cluster_path)
    return {
        "objects in the cluster": lambda: _objects(client, target),
        **{kind.plural: partial(_resources, client, kind, scope) for kind in LISTINGS},
    }


def _resources(client: GoogleClient, kind: GoogleKind, scope: Scope) -> Iterator[Thing]:
    for one in listed(client, kind, scope):
        yield Thing(f"{one.kind} {one.short}", one.labels)


def _objects(client: GoogleClient, target: Target) -> Iterator[Thing]:
    where = target.outputs
    cluster = open_cluster(client, where, where.cluster_path)
    if cluster is None:
        return
    selector = label_selector(target.labels)
    try:
        for kind in (one for one in OBJECTS if one.in_stack):
            for item in cluster.list(kind.plural, where.namespace, selector):
                metadata = item["metadata"]
                name = f"{kind.word} {where.namespace}/{metadata['name']}"
                yield Thing(name, metadata.get("labels") or {}, _summary(metadata.get("annotations") or {}))
    finally:
        cluster.close()


def _summary(annotations: Mapping[str, str]) -> JobSummary | None:
    try:
        found = json.loads(annotations.get(SUMMARY_ANNOTATION, "null"))
    except ValueError:
        return None
    return JobSummary.read(found) if isinstance(found, dict) else None
