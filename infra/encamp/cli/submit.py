"""``encamp submit``: hand a job over to a driver of its own, and return."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import WORDS, JobCommand
from encamp.cli.job_input import JOB_ID
from encamp.cli.out import say
from encamp.cli.run import KEEP_LOGS
from encamp.cli.stack import ENVIRONMENT, stack_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.cli.job_input import JobInput


@click.command(cls=JobCommand)
@JOB_ID
@ENVIRONMENT
@KEEP_LOGS
@click.option("--in-cluster", is_flag=True, help="Let a pod of the environment's own cluster drive it.")
@click.pass_context
def command(
    ctx: click.Context, job: JobInput, job_id: str | None, environment: str, *, keep_local_logs: bool, in_cluster: bool
) -> None:
    """Submit JOB.yaml and return once it is accepted; a driver continues without this terminal.

    Prints the job's id. Reports problems of the job as `encamp run` does, with its exit codes. With --in-cluster it
    also continues without this machine: packages must be in Cloud Storage then.
    """
    if in_cluster:
        _hand_over(job, job_id, environment)
        return
    # The driver reads them again; here they have been looked at.
    del job, job_id, keep_local_logs
    submit(ctx.meta[WORDS], environment)


def _hand_over(job: JobInput, job_id: str | None, environment: str) -> None:
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `--help` needs none of it
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.packaging.local import local_packages  # noqa: PLC0415
    from encamp.plan.environment.driver import require_driver  # noqa: PLC0415
    from encamp.plan.environment.planning import plan_environment  # noqa: PLC0415
    from encamp.plan.job import plan_job  # noqa: PLC0415
    from encamp.run.lifecycle.driver import look_ahead  # noqa: PLC0415
    from encamp.run.lifecycle.in_cluster import hand_over  # noqa: PLC0415
    from encamp.run.store.actor import Actor  # noqa: PLC0415

    found = job.load(job_id, suffix=time.strftime("%Y%m%d_%H%M%S", time.gmtime()))
    spec = enter(environment)
    driver = require_driver(plan_environment(spec).driver, environment)
    plan = plan_job(found.job, spec, packages=local_packages(found))
    # On stdout stands the id alone, for scripts.
    context = replace(Lines().context(), show=partial(say, err=True))
    for warning in plan.warnings:
        context.show(f"warning: {warning}")
    # What a pod would say in its log alone is said here.
    look_ahead(plan, context.steady)
    cluster = context.cluster(context.environment(environment))
    data = found.job.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        hand_over(cluster, driver, plan, data, environment=environment, started_by=Actor.myself().to_json())
    finally:
        cluster.close()
    _tell(plan.job_id, environment)


def submit(words: Sequence[str], environment: str) -> None:
    """Start a detached driver with the words of a verb, say how to go on, and exit."""
    from encamp.run.history.detached import start_driver  # noqa: PLC0415 - `--help` needs none of it

    started = start_driver(words)
    if started.job_id is not None:
        _tell(started.job_id, environment)
    sys.exit(started.exit_code)


def _tell(job_id: str, environment: str) -> None:
    """Print a job's id, and how to go on with it."""
    say(job_id)
    for verb, does in {"attach": "follows it", "logs": "shows its logs", "cancel": "ends it"}.items():
        say(f"encamp {verb} {job_id}{stack_words(environment)}  # {does}", err=True)
