"""The hourly cost of the machines that an environment's queues share, if every quota is used.

Nothing while no job runs: their pools are empty then. Which job a machine works for is on the job's receipt; the
minutes before a replica starts and after the last one has ended are the environment's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from encamp.plan.cost.prices import disk_price, machine_price, machine_text
from encamp.plan.environment.queues import FLAVOR_LABEL
from encamp.plan.environment.shared_pools import MOST_NODES

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan, NodePoolPlan
    from encamp.spec.prices import PriceTableSpec


@dataclass(frozen=True)
class KindCost:
    """The dearest use of the quotas for one kind of machine.

    Attributes:
        kind: name of the kind, such as ``spot-nvidia-l4``.
        machine: its machine in words.
        count: how many of them the quotas allow.
        hourly: price of all of them with their disks; None if it is not known.
    """

    kind: str
    machine: str
    count: int
    hourly: float | None


def queue_costs(plan: EnvironmentPlan, table: PriceTableSpec) -> tuple[KindCost, ...]:
    """Return the dearest use of each kind of shared machine, by kind. Pools of one kind draw on the same quotas."""
    found = []
    for kind, pools in groupby(sorted(plan.shared_pools, key=_kind), key=_kind):
        costs = [KindCost(kind, machine_text(pool), pool.max_nodes, _hourly(pool, table)) for pool in pools]
        # A machine without a price may be the dearest.
        found.append(max(costs, key=lambda cost: (cost.hourly is None, cost.hourly or 0.0)))
    return tuple(found)


def queue_cost_lines(costs: tuple[KindCost, ...]) -> list[str]:
    """Return the costs for people; nothing without shared machines."""
    if not costs:
        return []
    lines = [f"{cost.kind}: {_amount(cost)}" for cost in costs]
    total = None if any(cost.hourly is None for cost in costs) else sum(cost.hourly or 0.0 for cost in costs)
    whole = "not known" if total is None else f"{total:.2f} USD an hour"
    return [
        "machines that the queues share cost nothing while no job runs, and at most, with every quota used:",
        *lines,
        f"in all {whole}",
    ]


def _kind(pool: NodePoolPlan) -> str:
    return pool.labels[FLAVOR_LABEL]


def _amount(cost: KindCost) -> str:
    price = "no price is known" if cost.hourly is None else f"{cost.hourly:.2f} USD an hour"
    limit = ", which no quota limits" if cost.count == MOST_NODES else ""
    return f"{cost.count} x {cost.machine}{limit}: {price}"


def _hourly(pool: NodePoolPlan, table: PriceTableSpec) -> float | None:
    machine = machine_price(table, pool.machine_type, pool.accelerator, pool.provisioning)
    disk = disk_price(table, pool.disk_type, pool.disk_size_gb)
    return None if machine is None or disk is None else round(pool.max_nodes * (machine + disk), 6)
