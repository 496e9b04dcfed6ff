"""A job that was handed in and is not over, as its row says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Row


@dataclass(frozen=True)
class Waiting:
    """A submission that is not over; times are seconds since the epoch.

    Attributes:
        wait_until: when it is cancelled if it has not begun.
        claimed: since when somebody is about to begin it, None if nobody is.
        claimed_ago: since how many seconds; 0 if nobody is.
        claimed_by: the process that claimed it, see ``holder``.
        driver: the driver once it has said who it is, see ``holder``.
        tries: how many came to nothing before.
        trouble: what the last of these said.
        begun: when its driver began, None before; it is over once nothing of it is left.
    """

    job_id: str
    name: str
    environment: str
    by: str
    priority: int
    sequence: int
    at: float
    wait_until: float | None
    claimed: float | None
    claimed_ago: float
    claimed_by: str | None
    driver: str | None
    tries: int
    trouble: str | None
    not_before: float | None
    begun: float | None


def waiting_of(row: Row[Any], now: float) -> Waiting:
    """Return the waiting job of a row; ``now`` in seconds since the epoch."""
    return Waiting(
        job_id=row.job_id,
        name=row.name,
        environment=row.environment,
        by=row.creator,
        priority=row.priority,
        sequence=row.sequence,
        at=row.at,
        wait_until=row.wait_until,
        claimed=row.claimed,
        claimed_ago=max(0.0, now - row.claimed) if row.claimed is not None else 0.0,
        claimed_by=row.claimed_by,
        driver=row.driver,
        tries=row.tries,
        trouble=row.trouble,
        not_before=row.not_before,
        begun=row.begun,
    )
