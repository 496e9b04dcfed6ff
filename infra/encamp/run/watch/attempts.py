"""Every pod of a job: the attempt of its replica, the reason of its end, and the end that decided the job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.plan.manifests.failure_policy import EQUAL_ENDS, SOON_SECONDS, Consequence, consequence
from encamp.run.detail import Detail
from encamp.run.times import time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from encamp.run.logs.replicas import Replica

_SIGNAL_BASE = 128
_EVICTED = "EvictionByEvictionAPI"


class Attempts:
    """All pods of a job that were seen, those that are gone included.

    Attributes:
        seen: each pod by its UID as it was seen last, in the order of their coming.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Replica] = {}
        self._said: dict[str, str] = {}
        self._pods: dict[str, list[Replica]] = {}

    def note(self, replicas: Iterable[Replica], show: Callable[[str], None], now: str) -> list[Replica]:
        """Take the present pods and report what is new; return the pods whose end is new.

        ``now`` is the time in RFC 3339: pods that are gone without having told their end have ended then.
        """
        ended: list[Replica] = []
        there: set[str] = set()
        for replica in replicas:
            there.add(replica.uid)
            before = self.seen.get(replica.uid)
            if before is not None and before.exit_code is not None:
                # It ended before; that it is deleted now, as with its node, does not make that an end from outside.
                continue
            if before is None:
                self._say_again(replica, show)
            self.seen[replica.uid] = replica
            if replica.exit_code is not None and (before is None or before.exit_code is None):
                ended.append(replica)
            words = words_of(replica)
            if words and self._said.get(replica.uid) != words:
                self._said[replica.uid] = words
                line = f"{replica.name} {words}"
                show(line if replica.failed or replica.disruption else Detail(line))
        for uid, replica in self.seen.items():
            if uid not in there and not replica.finished:
                # No longer held against anybody, nor paid for.
                self.seen[uid] = replace(replica, finished=now, stopped=True)
        return ended

    def out_of_memory(self) -> Replica | None:
        """Return a replica that ran out of memory by its own doing: it would again, however often it is restarted."""
        return next((one for one in self.seen.values() if one.out_of_memory and not one.excused), None)

    def repeating(self) -> Replica | None:
        """Return a replica that ended alike and soon after its start ``EQUAL_ENDS`` times in a row, or None."""
        ends: dict[str, list[Replica]] = {}
        for one in sorted(self.seen.values(), key=lambda one: one.finished):
            if one.exit_code is not None and not one.excused:
                ends.setdefault(one.name, []).append(one)
        for found in ends.values():
            last = found[-EQUAL_ENDS:]
            alike = {one.exit_code for one in last} == {last[-1].exit_code}
            if len(last) == EQUAL_ENDS and last[-1].failed and alike and all(map(_soon, last)):
                return last[-1]
        return None

    def restarts(self, replica: Replica) -> int:
        """Return the number of counted restarts of a replica since the whole job was last started: its own failures."""
        pods = (one for one in self.seen.values() if one.name == replica.name and one.attempt == replica.attempt)
        return sum(one.failed and not one.excused for one in pods)

    def deciding(self) -> Replica | None:
        """Return the failed replica whose end decided the job's last attempt.

        That is the first that no restart would have helped; where there is none, the last end of the replica that was
        restarted most. Machines that were taken away and replicas that were told to stop count only for want of others.
        """
        failed = [replica for replica in self.seen.values() if replica.failed]
        if not failed:
            return None
        last = max(replica.attempt for replica in failed)
        own = [replica for replica in failed if replica.attempt == last and not replica.excused]
        if not own:
            return min(failed, key=lambda one: (one.stopped, -one.attempt, one.exit_code is None, one.finished))
        for wanted in (Consequence.JOB_FAILS, Consequence.JOB_AGAIN):
            decided = [one for one in own if _follows(one) is wanted]
            if decided:
                return min(decided, key=lambda one: one.finished)
        tries = {one.name: sum(other.name == one.name for other in own) for one in own}
        most = max(tries.values())
        name = next(one.name for one in sorted(own, key=lambda one: one.finished) if tries[one.name] == most)
        return max((one for one in own if one.name == name), key=lambda one: one.finished)

    def _say_again(self, replica: Replica, show: Callable[[str], None]) -> None:
        """Report that a replica was started again; a restart of the whole job is reported once and elsewhere."""
        before = self._pods.setdefault(replica.name, [])
        before.append(replica)
        if len(before) > 1 and before[-2].attempt == replica.attempt:
            show(f"{replica.name} is started again, attempt {len(before)}")


def _soon(replica: Replica) -> bool:
    """Whether it ended soon after its container was started."""
    began, finished = time_of(replica.began), time_of(replica.finished)
    return began is not None and finished is not None and (finished - began).total_seconds() <= SOON_SECONDS


def _follows(replica: Replica) -> Consequence | None:
    """Return the consequence of its exit code; the image's own rule has been applied already."""
    if not replica.exit_code:
        return None
    return consequence(replica.exit_code, custom_container=True, whole_job=False)


def words_of(replica: Replica) -> str:
    """Return a pod's state in words that follow the replica's name; empty if there is nothing to say yet."""
    if replica.disruption and replica.node:
        how = "was evicted from" if replica.disruption == _EVICTED else "was preempted: the cloud took away"
        return f"{how} {replica.node}"
    if replica.exit_code is not None:
        return _end(replica, replica.exit_code)
    if replica.phase == "Failed":
        return f"failed: {replica.reason}"
    if not replica.node:
        return "runs" if replica.started else ""
    return f"{'runs' if replica.started else 'starts'} on {replica.node}"


def _end(replica: Replica, code: int) -> str:
    if code > _SIGNAL_BASE and replica.stopped:
        return "was stopped"
    return f"exited with {code}{f': {replica.reason}' if replica.reason else ''}"
