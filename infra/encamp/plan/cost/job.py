"""The cost of a job's machines and their disks, and the running time that a budget allows.

Counted are machines, accelerators and boot disks by a table of prices, without what it leaves out (the built-in one:
discounts and taxes), and without network, Cloud Storage and the environment itself. A reservation counts at the full
price: it is paid for whether it is used or not.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.duration import Duration
from encamp.errors import PlanError
from encamp.plan.cost.model import CostPart, CostPlan, PriceBasis
from encamp.plan.cost.prices import disk_price, disk_text, machine_price, machine_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from encamp.plan.cost.lasting import Lasting
    from encamp.plan.model import JobPlan, LimitsPlan, NodePoolPlan
    from encamp.spec.prices import PriceTableSpec

_HOUR = 3600.0
#: A budget that pays for less running time than this pays for no training.
_SHORTEST_SECONDS = 60


def cost(
    pools: Sequence[NodePoolPlan],
    limits: LimitsPlan,
    *,
    lasts: Lasting,
    table: PriceTableSpec,
    budget: float | None = None,
    expected: int | None = None,
    bounded: bool = True,
) -> CostPlan:
    """Return the cost of the pools for an hour, for one run, and until the cluster's last limit ends the job.

    Args:
        pools: with what they may have at most.
        limits: when the job is ended.
        lasts: what bounds its attempts.
        table: the price table.
        budget: in US dollars.
        expected: seconds that one run is expected to take; as long as it may be when absent.
        bounded: whether somebody chose the longest running time; the default of a week says nothing of a run.
    """
    parts = tuple(part for pool in pools for part in _parts(pool, table))
    unpriced = tuple(sorted({part.what for part in parts if part.each is None}))
    hourly = None if unpriced else round(sum(part.hourly or 0.0 for part in parts), 6)
    longest, worst = limits.max_running_time.seconds, lasts.worst_seconds(limits)
    run = min(expected, longest) if expected is not None else longest if bounded else None
    return CostPlan(
        hourly=hourly,
        expected=None if hourly is None or run is None else amount(hourly, run),
        worst_case=None if hourly is None else amount(hourly, worst),
        expected_seconds=run,
        worst_seconds=worst,
        restarts=limits.max_restarts if lasts.ends_by_itself else None,
        parts=parts,
        basis=PriceBasis(table.date, table.region, table.source),
        unpriced=unpriced,
        budget=budget,
        is_longest=run == longest,
    )


def amount(hourly: float, seconds: int) -> float:
    """Return the price of so many seconds, in whole cents."""
    return round(hourly * seconds / _HOUR, 2)


def _parts(pool: NodePoolPlan, table: PriceTableSpec) -> Iterator[CostPart]:
    price = machine_price(table, pool.machine_type, pool.accelerator, pool.provisioning)
    yield CostPart(pool.name, "machines", machine_text(pool), pool.max_nodes, price)
    disk = disk_price(table, pool.disk_type, pool.disk_size_gb)
    yield CostPart(pool.name, "disks", disk_text(pool), pool.max_nodes, disk)


def within_budget(planned: CostPlan, limits: LimitsPlan, *, lasts: Lasting, fixed: bool) -> LimitsPlan:
    """Return the limits that a budget allows.

    Args:
        planned: the cost under ``limits``.
        limits: as the job asks for them.
        lasts: what bounds the job's attempts.
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
            hint="choose another machine, remove the budget, or give prices of your own (`prices` of the environment)",
        )
    if planned.worst_seconds * planned.hourly <= planned.budget * _HOUR:
        return limits
    paid_for = math.floor(planned.budget / planned.hourly * _HOUR)
    # The longest running time whose worst case is paid for; the worst case grows with it.
    longest = (
        bisect_right(
            range(limits.max_running_time.seconds + 1),
            paid_for,
            key=lambda seconds: lasts.worst_seconds(running_at_most(limits, seconds)),
        )
        - 1
    )
    if fixed or longest < _SHORTEST_SECONDS:
        raise _too_dear(planned, longest, amount(planned.hourly, lasts.worst_seconds(running_at_most(limits, 0))))
    return running_at_most(limits, longest)


def running_at_most(limits: LimitsPlan, seconds: int) -> LimitsPlan:
    """Return the same limits with another longest running time, and the cluster's deadline moved with it."""
    around = limits.active_deadline_seconds - limits.max_running_time.seconds
    return replace(limits, max_running_time=Duration.of(seconds), active_deadline_seconds=seconds + around)


def cut_warning(planned: CostPlan, limits: LimitsPlan) -> str:
    """Return the warning for a running time that a budget cut."""
    return (
        f"the budget of {planned.budget:.2f} USD pays for {limits.max_running_time.seconds} s of running at "
        f"{planned.hourly:.2f} USD an hour, whatever is restarted; the job is ended then"
    )


def cost_warnings(planned: CostPlan, region: str) -> list[str]:
    """Return warnings about what the figures leave out."""
    found: list[str] = []
    if planned.basis.region != region:
        found.append(
            f"the cost is counted by {planned.basis}, but the machines are in {region}, where they may cost up to half "
            "as much again: name a table of that region in `prices` of the environment"
        )
    if planned.restarts is None:
        found.append(
            "nothing in the cluster ends this job while its machines are taken away again and again: its images run as "
            "they are, and resilientToWorkerRestart starts it again each time; a reaper has to end it"
        )
    return found


def prices(plan: JobPlan) -> tuple[Mapping[str, str], Mapping[str, float]]:
    """Return each role's machine in words, and each machine's hourly price with its disk where both are known.

    Machines that differ in nothing but their disks are told apart by these.
    """
    words = _words(plan.node_pools)
    machines = {group.role.value: words.get(group.node_pool, group.machine_type) for group in plan.groups}
    hourly: dict[str, float | None] = {}
    for part in plan.cost.parts if plan.cost is not None else ():
        word = words[part.resource]
        known = hourly.get(word, 0.0) if part.kind == "disks" else 0.0
        hourly[word] = None if known is None or part.each is None else known + part.each
    return machines, {word: round(each, 6) for word, each in hourly.items() if each is not None}


def _words(pools: Sequence[NodePoolPlan]) -> Mapping[str, str]:
    """Return each pool's machine in words; with its disk where another pool has the same machine with another one."""
    disks: dict[str, set[str]] = {}
    for pool in pools:
        disks.setdefault(machine_text(pool), set()).add(disk_text(pool))
    return {
        pool.name: f"{text}, {disk_text(pool)}" if len(disks[text := machine_text(pool)]) > 1 else text
        for pool in pools
    }


def _too_dear(planned: CostPlan, longest: int, least: float) -> PlanError:
    times = "once" if planned.restarts == 0 else f"started again {planned.restarts} times"
    what = (
        f"the job may cost {planned.worst_case:.2f} USD ({planned.hourly:.2f} an hour for "
        f"{planned.worst_seconds / _HOUR:.2f} hours at worst, {times}; {planned.basis}), its budget is "
        f"{planned.budget:.2f} USD"
    )
    hint = f'set scheduling.maxRunningTime to at most "{Duration.of(longest)}", or raise the budget'
    if longest < _SHORTEST_SECONDS:
        hint = f"raise the budget: waiting for machines, restarts and taking down alone may cost {least:.2f} USD"
    return PlanError(what, where="encamp.budget.usd", hint=hint)
