"""The cost of an environment while no job runs in it: cluster, permanent machines, Cloud NAT.

Costs that depend on use are left out: stored bytes of buckets, registry and logs, network traffic, and keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.cost.model import CostPart, PriceBasis
from encamp.plan.cost.prices import HOURS_OF_MONTH, disk_price, machine_price
from encamp.plan.environment.model import SYSTEM_DISK, SYSTEM_DISK_GB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from encamp.plan.cost.by_use import UseCost
    from encamp.plan.model import EnvironmentPlan
    from encamp.spec.prices import PriceTableSpec


@dataclass(frozen=True)
class IdleCost:
    """An environment's standing cost.

    Attributes:
        hourly: None if a price is not known.
        unpriced: what has no price.
    """

    parts: tuple[CostPart, ...]
    hourly: float | None
    unpriced: tuple[str, ...]
    basis: PriceBasis

    @property
    def monthly(self) -> float | None:
        """The same for a month of 730 hours, in whole cents."""
        return None if self.hourly is None else round(self.hourly * HOURS_OF_MONTH, 2)


def idle_cost(plan: EnvironmentPlan, table: PriceTableSpec) -> IdleCost:
    """Return the costs that are paid whether jobs run or not; adopted resources are not counted."""
    parts = tuple(_parts(plan, table))
    unpriced = tuple(sorted({part.what for part in parts if part.each is None}))
    hourly = None if unpriced else round(sum(part.hourly or 0.0 for part in parts), 6)
    return IdleCost(parts, hourly, unpriced, PriceBasis(table.date, table.region, table.source))


def use_lines(costs: Iterable[UseCost]) -> list[str]:
    """Return the costs by use, in lines that stand by themselves."""
    return ["what is paid by use:", *(one.what for one in costs)]


def idle_lines(cost: IdleCost) -> list[str]:
    """Return the cost for people, in lines that stand by themselves."""
    if cost.hourly is None or cost.monthly is None:
        return [f"what the environment costs without jobs is not known: no price of {', '.join(cost.unpriced)}"]
    parts = [
        f"{part.resource}: {part.count} x {part.what}: {part.hourly or 0.0:.4f} USD an hour" for part in cost.parts
    ]
    total = f"in all {cost.hourly:.4f} USD an hour, {cost.monthly:.2f} USD a month ({cost.basis})"
    return ["what the environment costs without jobs, storage and traffic aside:", *parts, total]


def _parts(plan: EnvironmentPlan, table: PriceTableSpec) -> Iterator[CostPart]:
    if "cluster" not in plan.adopted:
        yield CostPart(plan.cluster, "services", "GKE cluster", 1, _service(table, "gke-cluster"))
        # An adopted cluster has a network with ways out.
        if "network" not in plan.adopted:
            yield CostPart(plan.vpc.nat, "services", "Cloud NAT gateway", 1, _service(table, "nat-gateway"))
    pool = plan.gke.system_pool
    if pool is not None and pool.min_nodes > 0:
        price = machine_price(table, pool.machine_type, None)
        yield CostPart(pool.name, "machines", pool.machine_type, pool.min_nodes, price)
        disk = disk_price(table, SYSTEM_DISK, SYSTEM_DISK_GB)
        yield CostPart(pool.name, "disks", f"{SYSTEM_DISK_GB} GB {SYSTEM_DISK}", pool.min_nodes, disk)


def _service(table: PriceTableSpec, name: str) -> float | None:
    entry = table.services.get(name)
    return None if entry is None else entry.usd_per_hour
