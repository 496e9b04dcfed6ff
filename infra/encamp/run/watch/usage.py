"""The pods of a job with their times: the basis of its machine time.

It stands in the journal from the moment a pod has a machine, so that whoever takes a job over counts also what the
driver before it saw, and a pod that nobody saw end is counted until somebody saw it gone.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from encamp.run.store.transactions import RecordError
from encamp.run.times import time_of
from encamp.run.watch.attempts import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.run.logs.replicas import Replica
    from encamp.run.store.records import Entry, Lease, Records

_LOG = logging.getLogger(__name__)
PODS = "pods"
#: Longest time that a machine stays for a failed replica: Kubernetes' longest wait before it starts one again
#: (job-pods-that-fail-wait), and about as long as GKE's autoscaler leaves a machine without pods.
_LONGEST_WAIT = timedelta(minutes=10)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class PodUse:
    """A pod that has or had a machine.

    Attributes:
        replica: name of the replica; one that was restarted has several pods.
        scheduled: RFC 3339 time since when it has a machine.
        finished: RFC 3339 time of its end, empty if nobody saw it.
        image_id: what the node said it ran, empty if it said nothing.
        node: name of its machine, empty in journals of before.
        attempt: how often the whole job had been started again before.
        failed: whether it ended in an error that was its own.
        end: how it ended, as the rest of a sentence that begins with the replica's name.
    """

    uid: str
    replica: str
    role: str
    scheduled: str
    finished: str
    image_id: str
    node: str = ""
    attempt: int = 0
    failed: bool = False
    end: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the journal's form."""
        return {
            "uid": self.uid,
            "replica": self.replica,
            "role": self.role,
            "scheduled": self.scheduled,
            "finished": self.finished,
            "imageId": self.image_id,
            "node": self.node,
            "attempt": self.attempt,
            "failed": self.failed,
            "end": self.end,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PodUse:
        """Return the use that ``to_json`` wrote."""
        names = ("uid", "replica", "role", "scheduled", "finished", "imageId", "node")
        attempt = data.get("attempt")
        return cls(
            *(str(data.get(name, "")) for name in names),
            attempt=attempt if isinstance(attempt, int) else 0,
            failed=data.get("failed") is True,
            end=str(data.get("end", "")),
        )


class Usage:
    """The notes of a driver about its job's pods.

    Args:
        before: the job's journal so far.
    """

    def __init__(self, records: Records, lease: Lease, before: Iterable[Entry]) -> None:
        self._records = records
        self._lease = lease
        self._known = {use.uid: use for use in noted(before)}
        self._inherited = {uid for uid, use in self._known.items() if not use.finished}

    def note(self, replicas: Iterable[Replica]) -> None:
        """Write down what is new of all pods seen so far: one entry, or none."""
        seen = {use.uid: use for use in map(_use, replicas) if use is not None}
        gone = {uid: self._known[uid] for uid in self._inherited if uid not in seen and not self._known[uid].finished}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        found = {**seen, **{uid: replace(use, finished=now) for uid, use in gone.items()}}
        changed = [use for uid, use in found.items() if self._known.get(uid) != use]
        if not changed:
            return
        try:
            self._records.append(self._lease, PODS, {"pods": [use.to_json() for use in changed]})
        except RecordError as error:
            # It is written with the next look; the training does not depend on it.
            _LOG.warning("machine time could not be noted: %s", error.what)
            return
        self._known.update((use.uid, use) for use in changed)


def noted(entries: Iterable[Entry]) -> list[PodUse]:
    """Return every pod of a journal as it was seen last, in the order of their coming."""
    found: dict[str, PodUse] = {}
    for entry in entries:
        pods = entry.data.get("pods") if entry.kind == PODS else None
        for pod in pods if isinstance(pods, list) else ():
            use = PodUse.from_json(pod)
            found[use.uid] = use
    return list(found.values())


def used(entries: Iterable[Entry], replicas: Iterable[Replica]) -> list[PodUse]:
    """Return every pod of a job: those of the journal, and those that this process has seen."""
    found = {use.uid: use for use in noted(entries)}
    found.update((use.uid, use) for use in map(_use, replicas) if use is not None)
    return list(found.values())


def node_seconds(uses: Iterable[PodUse], machines: Mapping[str, str], until: datetime) -> dict[str, float]:
    """Return seconds that a job held machines, by machine; each replica has one for itself.

    A machine also stands for the job between a replica's pods on it, and after a pod that failed until the replica is
    started again, wherever that is. One that was taken away stands no more.

    Args:
        uses: every pod.
        machines: each role's machine in words.
        until: the end of the training, or now; the end of pods whose end nobody saw.
    """
    total: dict[str, float] = {}
    replicas: dict[str, list[tuple[datetime, PodUse]]] = {}
    for use in uses:
        begin = time_of(use.scheduled)
        if use.role in machines and begin is not None:
            replicas.setdefault(use.replica, []).append((begin, use))
    for pods in replicas.values():
        pods.sort(key=lambda one: one[0])
        for at, (begin, use) in enumerate(pods):
            following = pods[at + 1] if at + 1 < len(pods) else None
            end = _left(use, following, until)
            machine = machines[use.role]
            total[machine] = total.get(machine, 0.0) + max(0.0, (end - begin).total_seconds())
    return {machine: round(seconds, 3) for machine, seconds in sorted(total.items())}


def _left(use: PodUse, following: tuple[datetime, PodUse] | None, until: datetime) -> datetime:
    """Return when a pod's machine was no longer its own."""
    end = (time_of(use.finished)) or until
    # A pod that nobody saw end had ended when its replica's next one came.
    limit = until if following is None else following[0]
    if use.failed:
        return max(end, min(limit, end + _LONGEST_WAIT))
    if following is not None and use.node and use.node == following[1].node:
        return limit
    return end if use.finished else min(end, limit)


def sealed_at(entries: Iterable[Entry], now: datetime) -> datetime:
    """Return when the logs were first sealed, after which no pod has a machine for long; ``now`` if they were not.

    Whoever goes on with an ending hours later must not count these hours for pods whose end nobody saw.
    """
    return min((entry.at for entry in entries if entry.kind == "sealed"), default=now)


def image_digests(uses: Iterable[PodUse], images: Mapping[str, str]) -> dict[str, list[str]]:
    """Return digests of what each role ran, as its nodes said them or the image's own name has it.

    Empty if none did.
    """
    found: dict[str, set[str]] = {role: set(_DIGEST.findall(image)) for role, image in images.items()}
    for use in uses:
        found.setdefault(use.role, set()).update(_DIGEST.findall(use.image_id))
    return {role: sorted(digests) for role, digests in sorted(found.items())}


def _use(replica: Replica) -> PodUse | None:
    """Return a replica's pod as a use, None while it has no machine."""
    if not replica.scheduled:
        return None
    failed = replica.failed and not replica.excused
    return PodUse(
        replica.uid,
        replica.name,
        replica.role,
        replica.scheduled,
        replica.finished,
        replica.image_id,
        node=replica.node,
        attempt=replica.attempt,
        failed=failed,
        end=words_of(replica) if failed else "",
    )
