"""The rule by which an engine's lock may be cleared, without any engine.

A lock names user, machine, process and time of its engine. Its engine is a child of a driver and stops with it: at once
when the driver dies, and within the lease's time when the driver cannot renew its lease. What it was doing then it
finishes first, and Google's slowest operations (node pools) are given half an hour by the provider.

A lock is therefore cleared only by who holds the job's lease, and only where one of these is so:

1. it is of this machine, in the same process namespace, and its process is dead;
2. it is of another machine whose driver held the lease before, it is older than the end of that lease, and the lease
   has run out for ``GRACE_SECONDS``;
3. it is of a machine that never held the lease (an engine that somebody started by hand), and it is older than
   ``BY_HAND_SECONDS``: no run of the engine on a job's stack takes as long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from encamp.run.store.journal import Entry

#: The provider's half hour for an operation, and half as much for clocks that differ and answers that are slow.
GRACE_SECONDS = 2700.0
#: Twelve of the provider's half hours in a row.
BY_HAND_SECONDS = 6 * 3600.0

#: Journal entry of a lease that ran out under another machine's driver.
ADOPTED = "adopted"

_LOCKED_BY = re.compile(r"created by \S+@(?P<host>\S+) \(pid (?P<pid>\d+)\)(?: at (?P<at>[0-9][0-9T:.Z+-]+))?")


@dataclass(frozen=True)
class Lock:
    """The owner of a stack's lock; ``at`` in seconds since the epoch, None if the engine does not say."""

    host: str
    pid: int
    at: float | None


@dataclass(frozen=True)
class Held:
    """A lease that another driver held before; ``place`` and ``expired`` as in ``records.Hold``."""

    host: str
    place: str
    expired: float


@dataclass(frozen=True)
class Fence:
    """The proof that clearing a lock needs: the job's lease, and its earlier holders.

    Attributes:
        host: name of this machine.
        place: what makes process numbers of this machine comparable.
        before: every earlier holder.
    """

    host: str
    place: str
    before: tuple[Held, ...] = ()

    @classmethod
    def of(cls, host: str, place: str, entries: Iterable[Entry]) -> Fence:
        """Return the fence of the present holder of a job's lease, with all earlier holders by the job's journal."""
        known = (one.data for one in entries if one.kind == ADOPTED)
        return cls(
            host, place, tuple(Held(str(one["host"]), str(one["place"]), float(one["expired"])) for one in known)
        )


class Verdict(Enum):
    """Whether a lock may be taken away."""

    BY_PROCESS = "when its process is dead"
    CLEAR = "now"
    KEEP = "not yet"


def read_lock(message: str) -> Lock | None:
    """Return the lock in the engine's message, or None."""
    found = _LOCKED_BY.search(message)
    if found is None:
        return None
    return Lock(found["host"], int(found["pid"]), _seconds(found["at"]))


def may_clear(lock: Lock, fence: Fence, now: float) -> Verdict:
    """Judge a lock by the rule above; ``now`` in seconds since the epoch."""
    holders = [held for held in fence.before if held.host == lock.host]
    if lock.host == fence.host and all(held.place == fence.place for held in holders):
        return Verdict.BY_PROCESS
    if lock.at is None:
        return Verdict.KEEP
    if holders and lock.at <= max(held.expired or now for held in holders):
        return Verdict.CLEAR if _all_over(holders, now) else Verdict.KEEP
    return Verdict.CLEAR if now - lock.at > BY_HAND_SECONDS else Verdict.KEEP


def _all_over(holders: Sequence[Held], now: float) -> bool:
    return all(now - held.expired > GRACE_SECONDS for held in holders)


def _seconds(at: str | None) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp() if at else None
    except ValueError:
        return None
