"""``encamp cancel``: end jobs before their time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.attach import DETACHED
from encamp.cli.known import looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT
from encamp.errors import EncampError, ExitCode

if TYPE_CHECKING:
    from encamp.run.history.catalogue import KnownJob


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@ENVIRONMENT
@click.option("--no-wait", is_flag=True, help="Return once the cancellation is on record.")
def command(jobs: tuple[str, ...], environment: str, *, no_wait: bool) -> None:
    """Cancel JOB..., ids: stop the replicas, keep the logs, delete their resources. Returns when they are CANCELLED.

    A job that has not started yet is CANCELLED at once. A job without a driver is adopted by a new one, which cancels
    it. Prints every few seconds what it waits for, for an hour at most; the cancellation then continues without it.
    Exit code 0: cancelled, or on record. 2: a job
    has ended before, or there is none such. 3: it has not ended within an hour. 4: tear-down failed. With several jobs
    the first that is not 0.
    """
    from encamp.jobs.cancelling import (  # noqa: PLC0415 - `encamp cancel --help` needs none of it
        begin,
        request_cancel,
        wait_until_cancelled,
    )

    codes: list[int] = []
    with looking(environment) as known:
        asked: list[KnownJob] = []
        for job in dict.fromkeys(jobs):
            try:
                asked.append(request_cancel(known, job, _tell))
            except EncampError as error:
                codes.append(_failed(error))
        try:
            for found in asked:
                try:
                    if no_wait and not found.torn_down:
                        begin(known, found, _tell)
                    else:
                        wait_until_cancelled(known, found, _tell)
                        say(f"{found.job_id} is CANCELLED")
                except EncampError as error:
                    codes.append(_failed(error))
        except KeyboardInterrupt:
            say("\nno longer waiting; the cancellation goes on", err=True)
            sys.exit(DETACHED)
    sys.exit(next((code for code in codes if code), ExitCode.OK))


def _failed(error: EncampError) -> int:
    say(f"error: {error}", err=True)
    return error.exit_code


def _tell(line: str) -> None:
    say(line, err=True)
