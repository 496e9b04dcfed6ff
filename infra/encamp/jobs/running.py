"""Plans a job and drives it to its end, whoever gave it."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from encamp.jobs.differences import sandbox_differences
from encamp.jobs.target import enter, environment_named
from encamp.packaging.local import local_packages
from encamp.plan.cost.text import cost_line
from encamp.plan.job import plan_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.jobs.given import NamedJob
    from encamp.plan.model import JobPlan
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.ending import RunResult
    from encamp.run.store.actor import Actor


def planned(job: NamedJob, job_id: str | None, environment: str) -> JobPlan:
    """The plan of a job, for which no cloud is asked.

    Raises:
        SpecError: the job is wrong.
        PlanError: no plan can be made of it.
        UsageError: file, environment or id are not there or not usable, or the trainer cannot be built.
    """
    found = job.load(job_id)
    spec = environment_named(environment)
    plan = plan_job(found.job, spec, packages=local_packages(found))
    return replace(plan, warnings=(*plan.warnings, *sandbox_differences(plan, spec)))


def run_named(
    job: NamedJob,
    job_id: str | None,
    environment: str,
    open_context: Callable[[], Context],
    *,
    accepted: Callable[[str, Path], None] | None = None,
    keep_logs: bool = False,
    detached: bool = False,
    started_by: Actor | None = None,
    submitted: bool = False,
    waited: float = 0.0,
    name: str | None = None,
) -> RunResult:
    """Be the driver of a job, to its end.

    Args:
        job: what is run; an id that is made for it carries the time.
        job_id: wins over the job's own.
        environment: stack of the environment, whose cloud this process enters.
        open_context: called once it is entered.
        accepted: gets the job's id and its folder once the job is this driver's.
        keep_logs: leave the local copy of the replicas' logs.
        detached: as of a ``JobRequest``.
        started_by: likewise.
        submitted: likewise.
        waited: likewise.
        name: the cloud name that it has on record.

    Raises:
        SpecError, PlanError, UsageError: as ``planned``; or the job's id was used before, or its data is wrong.
        EngineError: the environment is not up, or this driver had to let go of the job.
    """
    from encamp.run.lifecycle.driver import JobRequest, run_job  # noqa: PLC0415 - a plan needs no driver

    found = job.load(job_id, suffix=time.strftime("%Y%m%d_%H%M%S", time.gmtime()))
    spec = enter(environment)
    plan = plan_job(found.job, spec, packages=local_packages(found), name=name)
    context = open_context()
    for warning in (*plan.warnings, *sandbox_differences(plan, spec)):
        context.show(f"warning: {warning}")
    if plan.cost is not None:
        context.show(cost_line(plan.cost))
    request = JobRequest(
        plan,
        found.job.model_dump(mode="json", by_alias=True, exclude_none=True),
        environment,
        job_folder=found.folder,
        keep_logs=keep_logs,
        detached=detached,
        started_by=started_by,
        submitted=submitted,
        waited=waited,
    )
    return run_job(request, context, partial(accepted, plan.job_id) if accepted is not None else None)
