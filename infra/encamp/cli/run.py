"""``encamp run``: one job from its file to its receipt."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

import click

from encamp.cli.job_flags import WORDS, JobCommand
from encamp.cli.job_input import JOB_ID
from encamp.cli.stack import ENVIRONMENT
from encamp.cli.verbosity import Verbosity, verbosity_options
from encamp.run.detached import DRIVER_LOG, Parent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cli.job_input import JobInput
    from encamp.cli.lines import Lines
    from encamp.run.actor import Actor
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job_file import JobFile

KEEP_LOGS = click.option("--keep-local-logs", is_flag=True, help="Leave the local copy of the replicas' logs.")


@click.command(cls=JobCommand)
@JOB_ID
@ENVIRONMENT
@KEEP_LOGS
@click.option("--detach", is_flag=True, help="Return once the job is accepted, as `encamp submit` does.")
@verbosity_options
@click.pass_context
def command(
    ctx: click.Context,
    job: JobInput,
    job_id: str | None,
    environment: str,
    *,
    keep_local_logs: bool,
    detach: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run JOB.yaml: bring up, train, keep the results, tear down.

    Exit code 0: succeeded. 1: the job failed. 2: bad input. 3: the infrastructure failed. 4: tear-down failed.
    5: cancelled.
    """
    verbosity = Verbosity.of(verbose=verbose, quiet=quiet)
    parent = Parent.waiting()
    if detach and parent is None:
        from encamp.cli.submit import submit  # noqa: PLC0415 - only what goes on elsewhere needs it

        submit(ctx.meta[WORDS], environment)
    else:
        drive(job, job_id, environment, keep_local_logs=keep_local_logs, parent=parent, verbosity=verbosity)


class NamedJob(Protocol):
    """A job that can be read by an id."""

    def load(self, job_id: str | None, *, suffix: str = "") -> JobFile:
        """The job with an id: the given one, else one of its own or a new one with the suffix."""
        ...


def drive(
    job: NamedJob,
    job_id: str | None,
    environment: str,
    *,
    keep_local_logs: bool,
    parent: Parent | None,
    detached: bool = False,
    started_by: Actor | None = None,
    submitted: bool = False,
    waited: float = 0.0,
    name: str | None = None,
    verbosity: Verbosity = Verbosity.VERBOSE,
) -> None:
    """Be the driver of a job, and exit with its code.

    ``parent`` waits until it is accepted; the driver is detached then, or by ``detached`` though nobody waits.
    ``started_by`` is who started it, None for who runs this; ``submitted`` and ``waited`` as of a ``JobRequest``;
    ``name`` is the cloud name that it has on record.
    """
    from encamp.cli.differences import sandbox_differences  # noqa: PLC0415 - `encamp run --help` needs none of it
    from encamp.cli.ended import report  # noqa: PLC0415
    from encamp.cli.lines import Lines  # noqa: PLC0415
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.packaging.local import local_packages  # noqa: PLC0415
    from encamp.plan.cost.text import cost_line  # noqa: PLC0415
    from encamp.plan.job import plan_job  # noqa: PLC0415
    from encamp.run.driver import JobRequest, run_job  # noqa: PLC0415

    lines = Lines(verbosity)
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
    found = job.load(job_id, suffix=stamp)
    target: EnvironmentSpec = enter(environment)
    plan = plan_job(found.job, target, packages=local_packages(found), name=name)
    for warning in (*plan.warnings, *sandbox_differences(plan, target)):
        lines.show(f"warning: {warning}")
    if plan.cost is not None:
        lines.show(cost_line(plan.cost))
    data = found.job.model_dump(mode="json", by_alias=True, exclude_none=True)
    request = JobRequest(
        plan,
        data,
        environment,
        job_folder=found.folder,
        keep_logs=keep_local_logs,
        detached=detached or parent is not None,
        started_by=started_by,
        submitted=submitted,
        waited=waited,
    )
    result = run_job(request, lines.context(), _accepted(plan.job_id, lines, parent))
    report(result, verbosity)
    sys.exit(result.exit_code)


def _accepted(job_id: str, lines: Lines, parent: Parent | None) -> Callable[[Path], None]:
    """What is done when the job is this driver's: its log begins, and a parent that waits may go."""

    def accepted(folder: Path) -> None:
        lines.keep(folder / DRIVER_LOG, quiet=parent is not None)
        if parent is not None:
            parent.release(job_id, folder / DRIVER_LOG)

    return accepted
