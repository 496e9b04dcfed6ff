"""The cost of a job, decided: by resource, for an hour, for one run, and at worst. Money is US dollars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.plan.cost.by_use import UseCost


@dataclass(frozen=True)
class PriceBasis:
    """The price table of a cost: its date, region and source."""

    date: str
    region: str
    source: str

    def __str__(self) -> str:
        return f"prices of {self.region}, {self.date}"


@dataclass(frozen=True)
class CostPart:
    """Alike parts of one resource.

    Attributes:
        resource: name of the node pool.
        kind: ``machines`` or ``disks``.
        what: what is paid for, in words.
        count: how many there are at most.
        each: the hour's price of one, None if it is not known.
    """

    resource: str
    kind: str
    what: str
    count: int
    each: float | None

    @property
    def hourly(self) -> float | None:
        """The hour's price of all."""
        return None if self.each is None else self.each * self.count


@dataclass(frozen=True)
class CostPlan:
    """The cost of the job's machines and their disks.

    Attributes:
        hourly: all replicas running, per hour; None if a price is not known.
        expected: one run without a restart, None as above and where nobody says how long it is.
        worst_case: every machine there until the cluster's last kill switch, restarts of the whole job among it; None
            as above.
        expected_seconds: how long that one run is: as the job says, else the longest that it may be; None if the job
            says neither.
        worst_seconds: how long that worst case is.
        restarts: how often the worst case has the whole job started again; None if nothing in the cluster bounds it.
        parts: what is paid for, by resource.
        basis: the price table's date, region and source.
        unpriced: machines, accelerators and disks whose price is not known.
        budget: what the job may cost at most, None if nobody said.
        is_longest: whether the one run is counted to its limit, and its cost a ceiling.
        by_use: what is paid beside by how much the job writes.
    """

    hourly: float | None
    expected: float | None
    worst_case: float | None
    expected_seconds: int | None
    worst_seconds: int
    restarts: int | None
    parts: tuple[CostPart, ...]
    basis: PriceBasis
    unpriced: tuple[str, ...] = ()
    budget: float | None = None
    is_longest: bool = True
    by_use: tuple[UseCost, ...] = ()
