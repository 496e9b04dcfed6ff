"""The restarts of a job's replicas so far, from the journal; shown while the job is RUNNING."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.plan.limits import MAX_REPLICA_RESTARTS, MAX_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp.run.watch.usage import PodUse


@dataclass(frozen=True)
class Restarts:
    """Restarts of a job that goes on.

    Attributes:
        replica: the replica that was started again most since the whole job was, empty if none was.
        replicas: how often it was.
        jobs: how often the whole job was.
        last: the latest end that led to one, such as ``worker-replica-0 exited with 137``.
    """

    replica: str
    replicas: int
    jobs: int
    last: str

    def __str__(self) -> str:
        jobs = f"restart {self.jobs} of {MAX_RESTARTS} of the whole job" if self.jobs else ""
        own = f"restart {self.replicas} of {MAX_REPLICA_RESTARTS}" if self.replicas else ""
        last = f"last: {self.last}" if self.last else ""
        return ", ".join(filter(None, (jobs, own, last)))

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``describe`` and ``list``."""
        return {
            "replica": self.replica or None,
            "restart": self.replicas,
            "most": MAX_REPLICA_RESTARTS,
            "wholeJob": self.jobs,
            "mostOfWholeJob": MAX_RESTARTS,
            "last": self.last or None,
        }


def restarts_of(uses: Iterable[PodUse]) -> Restarts | None:
    """Return the restarts by a job's pods; None without any."""
    pods = list(uses)
    jobs = max((use.attempt for use in pods), default=0)
    failed = [use for use in pods if use.failed]
    counts: dict[str, int] = {}
    for use in failed:
        if use.attempt == jobs:
            counts[use.replica] = counts.get(use.replica, 0) + 1
    if not (jobs or counts):
        return None
    replica = max(counts, key=lambda name: counts[name], default="")
    latest = max(failed, key=lambda use: use.finished, default=None)
    # The end that uses up a replica's restarts has the whole job started again, or ends it.
    restarts = min(counts.get(replica, 0), MAX_REPLICA_RESTARTS)
    return Restarts(replica, restarts, jobs, f"{latest.replica} {latest.end}" if latest else "")
