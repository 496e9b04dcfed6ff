"""``encamp run``: one job from its file to its receipt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import WORDS, JobCommand
from encamp.cli.job_input import JOB_ID
from encamp.cli.stack import ENVIRONMENT
from encamp.cli.verbosity import Verbosity, verbosity_options
from encamp.run.history.detached import DRIVER_LOG, Parent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cli.job_input import JobInput
    from encamp.cli.lines import Lines
    from encamp.jobs.given import NamedJob
    from encamp.run.store.actor import Actor

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
    """Run JOB.yaml: create its resources, train, keep the results, delete the resources.

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
    from encamp.cli.ended import report  # noqa: PLC0415 - `encamp run --help` needs none of it
    from encamp.cli.lines import Lines  # noqa: PLC0415
    from encamp.jobs.running import run_named  # noqa: PLC0415

    lines = Lines(verbosity)
    result = run_named(
        job,
        job_id,
        environment,
        lines.context,
        accepted=_accepted(lines, parent),
        keep_logs=keep_local_logs,
        detached=detached or parent is not None,
        started_by=started_by,
        submitted=submitted,
        waited=waited,
        name=name,
    )
    report(result, verbosity)
    sys.exit(result.exit_code)


def _accepted(lines: Lines, parent: Parent | None) -> Callable[[str, Path], None]:
    """Return the callback that begins the log once the job is this driver's, and lets a waiting parent go."""

    def accepted(job_id: str, folder: Path) -> None:
        lines.keep(folder / DRIVER_LOG, quiet=parent is not None)
        if parent is not None:
            parent.release(job_id, folder / DRIVER_LOG)

    return accepted
