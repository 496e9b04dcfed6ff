"""Ends a job before its time: the request, whoever carries it out, and the wait for its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.run.history.detached import DRIVER_LOG, let_go, start_adopter
from encamp.run.history.following import Follower
from encamp.run.lifecycle.ended import result_of
from encamp.run.logs.driver_logs import DriverLog
from encamp.run.store.actor import Actor
from encamp.run.store.states import State
from encamp.run.store.submissions import Submissions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.jobs.opening import Looking
    from encamp.run.history.catalogue import KnownJob

#: A request that is older was somebody's before.
_FRESH = timedelta(seconds=1)
#: How long a cancellation is waited for: Google's slowest operations (node pools) are given half an hour.
_LONGEST_SECONDS = 3600.0


def request_cancel(known: Looking, job: str, show: Callable[[str], None]) -> KnownJob:
    """Write the request down, unless it comes too late; ``show`` gets what became of it.

    Raises:
        UsageError: the job has ended, or there is none such.
    """
    found = known.catalogue.job(job)
    if found.waiting:
        gone = Submissions(known.records).cancel(job, Actor.myself().words())
        # If not, it has begun or ended in this moment.
        found = known.catalogue.job(job)
        if gone:
            show(f"{job} had not begun")
            return found
    if found.state in set(State) and State(found.state).ended:
        when = f" since {found.ended:%Y-%m-%d %H:%M:%S} UTC" if found.ended else ""
        raise UsageError(f"this job has ended: it is {found.state}{when}", where=job)
    known.intent(found)
    begun = datetime.now(UTC) - _FRESH
    first = known.records.request_cancel(job, Actor.myself().words())
    first = min(first, found.times.get(State.CANCELLING, first))
    since = f"is being cancelled since {first:%Y-%m-%d %H:%M:%S} UTC" if first < begun else "is being cancelled"
    show(f"{job} {since}")
    return found


def begin(known: Looking, job: KnownJob, show: Callable[[str], None]) -> None:
    """See to it that somebody cancels the job."""
    if known.records.holder_of(job.job_id) is None:
        let_go(start_adopter(job.job_id, known.environment, _driver_log(known, job)))
        show(f"{job.job_id}: nobody drove it; a driver is started that takes it down")


def wait_until_cancelled(known: Looking, job: KnownJob, show: Callable[[str], None]) -> None:
    """Wait for a job's end; ``show`` gets what its driver says meanwhile.

    Raises:
        UsageError: it ended by itself before.
        EngineError: it did not end within an hour.
        TeardownError: something of it may still exist.
    """
    if job.torn_down:
        return
    log = _driver_log(known, job)

    def said(line: str) -> None:
        show(f"{job.job_id}: {line}")

    driver = DriverLog(log, lambda line: said(line.partition(" ")[2] or line), from_end=True)
    follower = Follower(
        job.job_id, known.environment, known.records, log=log, show=said, sources=[driver], limit=_LONGEST_SECONDS
    )
    record = follower.run()
    result = result_of(known.catalogue.job(job.job_id), record)
    if result.teardown_error is not None:
        raise result.teardown_error
    if result.outcome.state is not State.CANCELLED:
        raise UsageError(f"this job ended before: it is {result.outcome.state}", where=job.job_id)


def _driver_log(known: Looking, job: KnownJob) -> Path:
    return known.context.job_folder(known.intent(job).name) / DRIVER_LOG
