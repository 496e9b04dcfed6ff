"""``encamp cancel``: end jobs before their time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from encamp.cli.attach import DETACHED
from encamp.cli.known import looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT
from encamp.errors import EncampError, ExitCode, UsageError

if TYPE_CHECKING:
    from encamp.cli.known import Looking
    from encamp.run.catalogue import KnownJob

#: A request that is older was somebody's before.
_FRESH = timedelta(seconds=1)
#: How long a cancellation is waited for: Google's slowest operations (node pools) are given half an hour.
_LONGEST_SECONDS = 3600.0


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@ENVIRONMENT
@click.option("--no-wait", is_flag=True, help="Return once the cancellation is on record.")
def command(jobs: tuple[str, ...], environment: str, *, no_wait: bool) -> None:
    """Cancel JOB..., ids: stop the replicas, keep the logs, take everything down. Returns when they are CANCELLED.

    One that waits to be begun is CANCELLED at once. A job that nobody drives is taken over by a driver that cancels it.
    Says every few seconds what it waits for, an hour at most; the cancellation then goes on without it.
    Exit code 0: cancelled, or on record. 2: a job
    has ended before, or there is none such. 3: it has not ended within an hour. 4: tear-down failed. With several jobs
    the first that is not 0.
    """
    codes: list[int] = []
    with looking(environment) as known:
        asked: list[KnownJob] = []
        for job in dict.fromkeys(jobs):
            try:
                asked.append(_ask(known, job))
            except EncampError as error:
                codes.append(_failed(error))
        try:
            for found in asked:
                try:
                    codes.append(_begin(known, found) if no_wait and not found.torn_down else _wait(known, found))
                except EncampError as error:
                    codes.append(_failed(error))
        except KeyboardInterrupt:
            say("\nno longer waiting; the cancellation goes on", err=True)
            sys.exit(DETACHED)
    sys.exit(next((code for code in codes if code), ExitCode.OK))


def _failed(error: EncampError) -> int:
    say(f"error: {error}", err=True)
    return error.exit_code


def _ask(known: Looking, job: str) -> KnownJob:
    """Write the request down, unless it comes too late.

    Raises:
        UsageError: the job has ended, or there is none such.
    """
    from encamp.run.actor import Actor  # noqa: PLC0415 - `encamp cancel --help` needs none of it
    from encamp.run.states import State  # noqa: PLC0415
    from encamp.run.submissions import Submissions  # noqa: PLC0415

    found = known.catalogue.job(job)
    if found.waiting:
        gone = Submissions(known.records).cancel(job, Actor.myself().words())
        # If not, it has begun or ended in this moment.
        found = known.catalogue.job(job)
        if gone:
            say(f"{job} had not begun", err=True)
            return found
    if found.state in set(State) and State(found.state).ended:
        when = f" since {found.ended:%Y-%m-%d %H:%M:%S} UTC" if found.ended else ""
        raise UsageError(f"this job has ended: it is {found.state}{when}", where=job)
    known.intent(found)
    begun = datetime.now(UTC) - _FRESH
    first = known.records.request_cancel(job, Actor.myself().words())
    first = min(first, found.times.get(State.CANCELLING, first))
    since = f"is being cancelled since {first:%Y-%m-%d %H:%M:%S} UTC" if first < begun else "is being cancelled"
    say(f"{job} {since}", err=True)
    return found


def _begin(known: Looking, job: KnownJob) -> int:
    """See to it that somebody cancels the job."""
    from encamp.run.detached import DRIVER_LOG, let_go, start_adopter  # noqa: PLC0415

    if known.records.holder_of(job.job_id) is None:
        log = known.context.job_folder(known.intent(job).name) / DRIVER_LOG
        let_go(start_adopter(job.job_id, known.environment, log))
        say(f"{job.job_id}: nobody drove it; a driver is started that takes it down", err=True)
    return ExitCode.OK


def _wait(known: Looking, job: KnownJob) -> int:
    """Wait for a job's end; how it ended is said on stdout.

    Raises:
        UsageError: it ended by itself before.
    """
    from encamp.run.detached import DRIVER_LOG  # noqa: PLC0415
    from encamp.run.ended import result_of  # noqa: PLC0415
    from encamp.run.following import Follower  # noqa: PLC0415
    from encamp.run.growing import GrowingLog  # noqa: PLC0415
    from encamp.run.states import State  # noqa: PLC0415

    if job.torn_down:
        say(f"{job.job_id} is CANCELLED")
        return ExitCode.OK
    log = known.context.job_folder(known.intent(job).name) / DRIVER_LOG

    def show(line: str) -> None:
        say(f"{job.job_id}: {line}", err=True)

    driver = GrowingLog(log, lambda line: show(line.partition(" ")[2] or line), from_end=True)
    follower = Follower(
        job.job_id, known.environment, known.records, log=log, show=show, sources=[driver], limit=_LONGEST_SECONDS
    )
    record = follower.run()
    result = result_of(known.catalogue.job(job.job_id), record)
    if result.teardown_error is not None:
        raise result.teardown_error
    if result.outcome.state is not State.CANCELLED:
        raise UsageError(f"this job ended before: it is {result.outcome.state}", where=job.job_id)
    say(f"{job.job_id} is CANCELLED")
    return ExitCode.OK
