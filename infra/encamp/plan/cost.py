"""What a job's machines cost by list prices, and what a budget makes of its running time.

Prices are the catalog's: list prices of us-central1 in US dollars, without discounts, taxes, disks, network and
storage. Machines of FLEX_START, QUEUED and RESERVATION are counted at the on-demand price: a reservation is paid for
whether it is used or not, and what flex-start saves is not in the catalog.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.model import CostPlan
from encamp.plan.prices import has_built_in, hourly_price

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.model import JobPlan, LimitsPlan, NodePoolPlan

#: Where the catalog's prices are valid; elsewhere machines cost up to half as much again.
PRICES_OF = "list prices of us-central1"
_HOUR = 3600.0
#: A budget that pays for less running time than this pays for no training.
_SHORTEST_SECONDS = 60


def pool_name_and_price(pool: NodePoolPlan) -> tuple[str, float | None]:
    """A pool's machine in words, and its price of an hour; None where the catalog knows none.

    GPUs that are part of a machine type, and TPU chips, are in its price; attached ones are added.
    """
    return machine_text(pool), hourly_price(pool.machine_type, pool.accelerator, spot=pool.spot)


def machine_text(pool: NodePoolPlan) -> str:
    """``n1-standard-8 + 2 x nvidia-tesla-t4, spot``: what has one price."""
    attached = pool.accelerator if not has_built_in(pool.machine_type) else None
    text = pool.machine_type if attached is None else f"{pool.machine_type} + {attached.count} x {attached.type}"
    return f"{text}, spot" if pool.spot else text


def cost(pools: Sequence[NodePoolPlan], limits: LimitsPlan, budget: float | None) -> CostPlan:
    """What the pools cost: an hour of all nodes, and all of them from the first second to the deadline."""
    prices = [(pool.max_nodes, *pool_name_and_price(pool)) for pool in pools]
    unpriced = tuple(sorted({name for _, name, price in prices if price is None}))
    if unpriced:
        return CostPlan(None, None, unpriced, budget)
    hourly = sum(nodes * (price or 0.0) for nodes, _, price in prices)
    return CostPlan(round(hourly, 6), round(hourly * limits.deadline_seconds / _HOUR, 2), (), budget)


def within_budget(planned: CostPlan, limits: LimitsPlan, *, fixed: bool) -> LimitsPlan:
    """The limits that a budget allows.

    Args:
        planned: the cost under ``limits``.
        limits: as the job asks for them.
        fixed: the job file itself says how long it may run, so that the running time is not cut.

    Raises:
        PlanError: the budget does not pay for the job, or a price is not known.
    """
    if planned.budget is None:
        return limits
    if planned.worst_case is None or planned.hourly is None:
        raise PlanError(
            f"no price is known of {', '.join(planned.unpriced)}, so no budget can hold",
            where="encamp.budget.usd",
            hint="choose another machine, or remove the budget",
        )
    if planned.worst_case <= planned.budget:
        return limits
    around = limits.deadline_seconds - limits.max_running_time_seconds
    longest = math.floor(planned.budget / planned.hourly * _HOUR) - around
    if fixed or longest < _SHORTEST_SECONDS:
        raise _too_dear(planned, limits, longest=longest, around=around)
    return replace(
        limits,
        max_running_time_seconds=longest,
        active_deadline_seconds=limits.active_deadline_seconds - limits.max_running_time_seconds + longest,
    )


def cut_warning(planned: CostPlan, limits: LimitsPlan) -> str:
    """What to say where a budget cut the running time."""
    return (
        f"the budget of {planned.budget:.2f} USD pays for {limits.max_running_time_seconds} s of running at "
        f"{planned.hourly:.2f} USD an hour; the job is ended then"
    )


def prices(plan: JobPlan) -> tuple[Mapping[str, str], Mapping[str, float]]:
    """The machine of each role in words, and the hour's price of each machine that has one."""
    pools = {pool.name: pool_name_and_price(pool) for pool in plan.node_pools}
    machines = {
        group.role.value: pools[group.node_pool][0] if group.node_pool in pools else group.machine_type
        for group in plan.groups
    }
    return machines, {name: price for name, price in pools.values() if price is not None}


def cost_text(planned: CostPlan) -> list[str]:
    """The cost for people, a line a fact."""
    if planned.hourly is None or planned.worst_case is None:
        return [f"unknown  no price of {', '.join(planned.unpriced)}"]
    lines = [
        f"hourly   {planned.hourly:.2f} USD with every replica on its machine",
        f"at most  {planned.worst_case:.2f} USD, were every machine there until the deadline ({PRICES_OF})",
    ]
    return lines if planned.budget is None else [*lines, f"budget   {planned.budget:.2f} USD"]


def _too_dear(planned: CostPlan, limits: LimitsPlan, *, longest: int, around: int) -> PlanError:
    hours = limits.deadline_seconds / _HOUR
    what = (
        f"the job may cost {planned.worst_case:.2f} USD ({planned.hourly:.2f} an hour for {hours:.2f} hours, "
        f"{PRICES_OF}), its budget is {planned.budget:.2f} USD"
    )
    hint = f'set scheduling.maxRunningTime to at most "{longest}s", or raise the budget'
    if longest < _SHORTEST_SECONDS:
        least = (planned.hourly or 0.0) * around / _HOUR
        hint = f"raise the budget: waiting for machines and taking down alone may take {around} s ({least:.2f} USD)"
    return PlanError(what, where="encamp.budget.usd", hint=hint)
