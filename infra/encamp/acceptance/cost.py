"""The cost of a run of the ladder, by the plan's own cost model, and the rungs that fit a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.errors import UsageError
from encamp.plan.cost.idle import idle_cost
from encamp.plan.cost.job import amount
from encamp.plan.cost.prices import price_table
from encamp.plan.environment.planning import plan_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.acceptance.ladder import Rung
    from encamp.plan.cost.model import CostPlan
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

#: To bring an environment up and down. Beliefs: time-cluster-creation, time-cluster-deletion.
AROUND_SECONDS: Final = 1800
#: Beside a rung's one run: its pools and machines come and go. Beliefs: time-pool-creation, time-machine-from-zero.
_BESIDE_SECONDS: Final = 600


@dataclass(frozen=True)
class PlannedRung:
    """A rung that is to be run, with its job decided."""

    rung: Rung
    plan: JobPlan

    @property
    def cost(self) -> CostPlan:
        """The cost of its job.

        Raises:
            UsageError: a price is not known, so that no budget can hold.
        """
        planned = self.plan.cost
        if planned is None or planned.worst_case is None:
            missing = ", ".join(planned.unpriced) if planned is not None else "its machines"
            raise UsageError(
                f"no price is known of {missing}, so no budget can hold",
                where=f"rung {self.rung.name}",
                hint=f"give prices of your own (`prices` of the environment), or add --skip {self.rung.name}",
            )
        return planned

    @property
    def seconds(self) -> int:
        """Its expected time in seconds."""
        run = self.cost.expected_seconds
        return (self.plan.limits.max_running_time.seconds if run is None else run) + _BESIDE_SECONDS


@dataclass(frozen=True)
class LadderCost:
    """The cost of a run, in US dollars.

    Attributes:
        environment_hourly: an hour of the environment, 0 if it is there already.
        expected_seconds: how long the run is expected to take.
        worst_seconds: how long the environment stands if every job lasts to its last limit, one after the other.
        expected: all jobs run once.
        worst: every job's worst case, with the environment standing meanwhile.
    """

    environment_hourly: float
    expected_seconds: int
    worst_seconds: int
    expected: float
    worst: float


@dataclass(frozen=True)
class PlannedLadder:
    """The rungs to run, those left out and why, and the cost."""

    rungs: tuple[PlannedRung, ...]
    left_out: tuple[tuple[str, str], ...]
    cost: LadderCost


def environment_hourly(spec: EnvironmentSpec) -> float:
    """Return the cost of an hour of an environment without jobs.

    Raises:
        UsageError: a price is not known.
    """
    found = idle_cost(plan_environment(spec), price_table(spec))
    if found.hourly is None:
        raise UsageError(
            f"no price is known of {', '.join(found.unpriced)}, so no budget can hold",
            where=f"environment {spec.name}",
            hint="give prices of your own (`prices` of the environment)",
        )
    return found.hourly


def ladder_cost(planned: Sequence[PlannedRung], hourly: float) -> LadderCost:
    """Return the cost of rungs one after the other, in an environment that costs ``hourly`` meanwhile."""
    expected_seconds = AROUND_SECONDS + sum(one.seconds for one in planned)
    worst_seconds = AROUND_SECONDS + sum(one.cost.worst_seconds for one in planned)
    return LadderCost(
        environment_hourly=hourly,
        expected_seconds=expected_seconds,
        worst_seconds=worst_seconds,
        expected=round(amount(hourly, expected_seconds) + sum(one.cost.expected or 0.0 for one in planned), 2),
        worst=round(amount(hourly, worst_seconds) + sum(one.cost.worst_case or 0.0 for one in planned), 2),
    )


def within(
    planned: Sequence[PlannedRung], hourly: float, budget: float | None, left_out: Sequence[tuple[str, str]] = ()
) -> PlannedLadder:
    """Shorten a ladder to what a budget pays for at worst; earlier rungs are kept before later ones.

    Raises:
        UsageError: it pays for no rung, or not even for the environment.
    """
    kept: list[PlannedRung] = []
    dropped: list[tuple[str, str]] = list(left_out)
    for one in planned:
        worst = ladder_cost([*kept, one], hourly).worst
        if budget is None or worst <= budget:
            kept.append(one)
        else:
            dropped.append((one.rung.name, f"with it the run may cost {worst:.2f} USD, the budget is {budget:.2f} USD"))
    if budget is not None and not kept:
        least = min((ladder_cost([one], hourly).worst for one in planned), default=ladder_cost([], hourly).worst)
        if planned or least > budget:
            what = f"the budget of {budget:.2f} USD pays for no rung: the cheapest run may cost {least:.2f} USD"
            raise UsageError(what, where="--budget", hint=f"--budget {least:.2f}, or fewer rungs by --only")
    return PlannedLadder(tuple(kept), tuple(dropped), ladder_cost(kept, hourly))
