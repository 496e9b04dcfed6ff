"""``encamp run``: one job from its file to its receipt."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import ENVIRONMENT, JOB_ID

if TYPE_CHECKING:
    from encamp.cli.job_input import JobInput
    from encamp.run.ending import RunResult
    from encamp.spec.environment import EnvironmentSpec


@click.command(cls=JobCommand)
@JOB_ID
@ENVIRONMENT
@click.option("--keep-local-logs", is_flag=True, help="Leave the local copy of the replicas' logs.")
def command(job: JobInput, job_id: str | None, environment: str, *, keep_local_logs: bool) -> None:
    """Run JOB.yaml: bring up, train, keep the results, tear down.

    Exit code 0: succeeded. 1: the job failed. 2: bad input. 3: the infrastructure failed. 4: tear-down failed.
    5: cancelled.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `encamp run --help` needs none of it
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.packaging.local import local_packages  # noqa: PLC0415
    from encamp.plan.job import plan_job  # noqa: PLC0415
    from encamp.run.driver import JobRequest, run_job  # noqa: PLC0415

    lines = Lines()
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
    found = job.load(job_id, suffix=stamp)
    target: EnvironmentSpec = enter(environment)
    plan = plan_job(found.job, target, packages=local_packages(found))
    for warning in plan.warnings:
        lines.show(f"warning: {warning}")
    data = found.job.model_dump(mode="json", by_alias=True, exclude_none=True)
    request = JobRequest(plan, data, environment, job_folder=found.folder, keep_logs=keep_local_logs)
    result = run_job(request, lines.context())
    _report(result)
    sys.exit(result.exit_code)


def _report(result: RunResult) -> None:
    """The end as people read it: outcome, receipt, what is left."""
    from encamp.run.receipt import receipt_text  # noqa: PLC0415

    failure = result.outcome.failure
    if failure is not None and failure.last_lines:
        click.echo(f"\nthe last lines of {failure.replica}:")
        for line in failure.last_lines:
            click.echo(f"  | {line}")
    if result.receipt is not None:
        click.echo(f"\n{receipt_text(result.receipt)}")
    click.echo(f"results      {result.results}")
    for error in (result.error, result.teardown_error):
        if error is not None:
            click.echo(f"error: {error}", err=True)
