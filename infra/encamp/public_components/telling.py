"""Messages of a program about the plan that it declares, and how its errors reach the engine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pulumi

from encamp.cloud.rest import GoogleClient
from encamp.errors import EncampError, UsageError
from encamp.plan.cost.by_use import use_costs
from encamp.plan.cost.idle import idle_cost, idle_lines, use_lines
from encamp.plan.cost.prices import price_table
from encamp.plan.cost.queues import queue_cost_lines, queue_costs
from encamp.plan.cost.text import cost_lines
from encamp.preflight import check_environment
from encamp.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from encamp.plan.model import EnvironmentPlan, JobPlan
    from encamp.spec.environment import EnvironmentSpec


@contextmanager
def run_errors(shown: Callable[[str], str] = redacted) -> Iterator[None]:
    """Turn each EncampError into a ``pulumi.RunError``, which the engine prints without a traceback.

    Args:
        shown: the message as it may be read, without secrets.
    """
    try:
        yield
    except EncampError as error:
        raise pulumi.RunError(shown(str(error))) from None


def tell_environment(spec: EnvironmentSpec, plan: EnvironmentPlan, more: Iterable[str] = ()) -> None:
    """Log an environment's warnings, ``more`` among them, and what it costs."""
    for warning in (*plan.warnings, *more):
        pulumi.log.warn(warning)
    table = price_table(spec)
    costs = [
        *idle_lines(idle_cost(plan, table)),
        *queue_cost_lines(queue_costs(plan, table)),
        *use_lines(use_costs(spec, table)),
    ]
    pulumi.log.info("\n".join(costs))


def tell_job(plan: JobPlan, shown: Callable[[str], str] = redacted) -> None:
    """Log a job's warnings and what it costs."""
    for warning in plan.warnings:
        pulumi.log.warn(shown(warning))
    if plan.cost is not None:
        pulumi.log.info("\n".join(cost_lines(plan.cost)))


def refuse_second_environment(spec: EnvironmentSpec) -> None:
    """Refuse a second environment of a sandbox, which has room for one; a preview only warns of it.

    Raises:
        UsageError: the sandbox's control plane is another environment's.
    """
    if not spec.is_sandbox:
        return
    try:
        check_environment(spec, GoogleClient())
    except UsageError as error:
        if not pulumi.runtime.is_dry_run():
            raise
        pulumi.log.warn(str(error))
