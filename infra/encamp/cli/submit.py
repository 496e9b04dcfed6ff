"""``encamp submit``: hand a job over to a driver of its own, and return."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import WORDS, JobCommand
from encamp.cli.job_input import DEFAULT_ENVIRONMENT, ENVIRONMENT, JOB_ID
from encamp.cli.run import KEEP_LOGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.cli.job_input import JobInput


@click.command(cls=JobCommand)
@JOB_ID
@ENVIRONMENT
@KEEP_LOGS
@click.pass_context
def command(ctx: click.Context, job: JobInput, job_id: str | None, environment: str, *, keep_local_logs: bool) -> None:
    """Submit JOB.yaml and return once it is accepted; a driver goes on without this terminal.

    Prints the job's id. What is wrong with the job is said as by `encamp run`, with its exit codes.
    """
    # The driver reads them again; here they have been looked at.
    del job, job_id, keep_local_logs
    submit(ctx.meta[WORDS], environment)


def submit(words: Sequence[str], environment: str) -> None:
    """Start a detached driver with the words of a verb, say how to go on, and exit."""
    from encamp.run.detached import start_driver  # noqa: PLC0415 - `--help` needs none of it

    started = start_driver(words)
    if started.job_id is not None:
        click.echo(started.job_id)
        for verb, does in {"attach": "follows it", "logs": "shows its logs", "cancel": "ends it"}.items():
            click.echo(f"encamp {verb} {started.job_id}{_where(environment)}  # {does}", err=True)
    sys.exit(started.exit_code)


def _where(environment: str) -> str:
    return "" if environment == DEFAULT_ENVIRONMENT else f" --environment {environment}"
