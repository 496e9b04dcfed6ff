"""The plan of a run, made before anything exists: the rungs that this environment can run, and their cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.acceptance.cost import PlannedRung, environment_hourly, within
from encamp.acceptance.rung_jobs import job_id, plan_rung
from encamp.errors import PlanError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from encamp.acceptance.cost import PlannedLadder
    from encamp.acceptance.environment import HostEnvironment
    from encamp.acceptance.ladder import Rung
    from encamp.spec.environment import EnvironmentSpec


def plan_ladder(
    spec: EnvironmentSpec, host: HostEnvironment, rungs: Sequence[Rung], budget: float | None, own: Collection[str] = ()
) -> PlannedLadder:
    """Return the rungs that this environment can run within a budget, and why others are left out.

    Args:
        spec: the environment.
        host: its stack.
        rungs: those that are wanted.
        budget: USD, None for no limit.
        own: ids of runs that are resumed or taken down: an environment of theirs belongs to nobody else.

    Raises:
        UsageError: the budget is too small, a price is not known, the environment is protected, or another run has it.
    """
    paid = _is_paid(host, own)
    if not paid:
        host.refuse_protected()
    planned: list[PlannedRung] = []
    left_out: list[tuple[str, str]] = []
    for rung in rungs:
        if rung.needs_queue and spec.queues is None:
            left_out.append((rung.name, "the environment has no queues"))
            continue
        try:
            planned.append(PlannedRung(rung, plan_rung(rung, spec, job_id(rung, "plan"))))
        except PlanError as error:
            left_out.append((rung.name, error.what))
    return within(planned, 0.0 if paid else environment_hourly(spec), budget, left_out)


def _is_paid(host: HostEnvironment, own: Collection[str]) -> bool:
    """Whether the environment was there before, so that the run adds nothing to what it costs.

    Raises:
        UsageError: another run has brought it up.
    """
    claim = host.claim()
    if claim is not None and claim.run not in own:
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(claim.until))
        raise UsageError(
            f"run {claim.run} of another machine has brought this environment up, and has it until {until}",
            where=host.stack,
            hint="wait for it; once that time has passed, `encamp reap` takes the environment down",
        )
    return claim is None and host.is_up()
