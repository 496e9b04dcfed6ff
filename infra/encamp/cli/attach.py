"""``encamp attach``: follow a job that another process drives."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from encamp.cli.known import JOB, looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT
from encamp.cli.verbosity import Verbosity, verbosity_options

if TYPE_CHECKING:
    from encamp.jobs.opening import Looking
    from encamp.run.history.catalogue import KnownJob
    from encamp.run.history.following import Follower, Source
    from encamp.run.lifecycle.ending import RunResult

#: What a shell says of a command that Ctrl-C ended: no code of a job.
DETACHED = 130


@click.command()
@JOB
@ENVIRONMENT
@verbosity_options
def command(job: str, environment: str, *, verbose: bool, quiet: bool) -> None:
    """Show the logs of JOB, an id, from their beginning until the job has ended, and exit with its exit code.

    Waits for a job that has not started yet. A job without a driver is adopted by a new one, which outlives this
    command. Ctrl-C ends this command with exit code 130, not the job.
    """
    from encamp.cli.ended import report  # noqa: PLC0415 - `encamp attach --help` needs none of it

    try:
        verbosity = Verbosity.of(verbose=verbose, quiet=quiet)
        result = _followed(job, environment, verbosity)
        report(result, verbosity)
        if verbosity is not Verbosity.QUIET:
            say(f"logs         {result.results}logs/")
    except KeyboardInterrupt:
        say(f"\ndetached: the job goes on; `encamp attach {job}` follows it again", err=True)
        sys.exit(DETACHED)
    except BrokenPipeError:
        # Whoever reads has enough, as with `| head`; nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DETACHED)
    sys.exit(result.exit_code)


def _followed(job: str, environment: str, verbosity: Verbosity) -> RunResult:
    from encamp.run.lifecycle.ended import result_of  # noqa: PLC0415

    with looking(environment, verbosity) as jobs:
        found = jobs.catalogue.job(job)
        steps = _Steps(found.created or datetime.now(UTC), verbosity)
        if found.waiting:
            found = _begun(jobs, found, steps)
        if not found.torn_down:
            _follower(jobs, found, steps).run()
            found = jobs.catalogue.job(job)
        return result_of(found, jobs.records.record(job))


def _begun(jobs: Looking, job: KnownJob, steps: _Steps) -> KnownJob:
    """The job once it has been begun, or has ended without that; how it ended is said then."""
    from encamp.run.history.following import wait_until_begun  # noqa: PLC0415

    wait_until_begun(jobs.records, job.job_id, steps.show)
    found = jobs.catalogue.job(job.job_id)
    if found.torn_down:
        steps.show(f"the job is {found.state}{f': {found.message}' if found.message else ''}")
    return found


def _follower(jobs: Looking, job: KnownJob, steps: _Steps) -> Follower:
    """Follows a job by what this machine has of it.

    Raises:
        UsageError: the record here does not know it.
    """
    from encamp.run.history.detached import DRIVER_LOG  # noqa: PLC0415
    from encamp.run.history.following import Follower  # noqa: PLC0415

    log = jobs.context.job_folder(jobs.intent(job).name) / DRIVER_LOG
    # A driver of another machine has no files here.
    here = job.driver is None or log.exists()
    sources = _files(jobs, job, steps) if here else _cluster(jobs, job, steps)
    return Follower(
        job.job_id,
        jobs.environment,
        jobs.records,
        log=log,
        show=steps.show,
        sources=sources,
    )


def _files(jobs: Looking, job: KnownJob, steps: _Steps) -> list[Source]:
    from encamp.run.history.detached import DRIVER_LOG  # noqa: PLC0415
    from encamp.run.logs.driver_logs import DriverLog, DriverSpool, SealedLogs  # noqa: PLC0415

    intent = jobs.intent(job)
    return [
        DriverLog(jobs.context.job_folder(intent.name) / DRIVER_LOG, steps.kept),
        DriverSpool(
            jobs.spool(job),
            intent.replicas if intent.study is None else None,
            SealedLogs(jobs.storage, job.bucket, job.prefix),
            jobs.context.log,
        ),
    ]


def _cluster(jobs: Looking, job: KnownJob, steps: _Steps) -> list[Source]:
    from encamp.run.history.following import PodLogs, RecordedStates  # noqa: PLC0415

    cluster = jobs.context.cluster(jobs.context.environment(jobs.environment))
    return [
        RecordedStates(jobs.records, job.job_id, steps.show),
        PodLogs(cluster, jobs.intent(job), jobs.context.log),
    ]


class _Steps:
    """The steps of a driver as `encamp run` shows them, with the time since the job was accepted."""

    def __init__(self, begun: datetime, verbosity: Verbosity) -> None:
        self._begun = begun
        self._verbosity = verbosity

    def show(self, line: str) -> None:
        """Show a step of now."""
        self._show(datetime.now(UTC), line)

    def kept(self, line: str) -> None:
        """Show a line of a driver's log: a time and a step, or what was written beside that."""
        from encamp.run.detail import kept_step  # noqa: PLC0415 - `encamp attach --help` needs none of it

        time, _, text = line.partition(" ")
        try:
            at = datetime.fromisoformat(time)
        except ValueError:
            if self._verbosity is not Verbosity.QUIET:
                say(line)
        else:
            self._show(at, kept_step(text))

    def _show(self, at: datetime, line: str) -> None:
        from encamp.cli.lines import shown  # noqa: PLC0415

        if shown(line, self._verbosity):
            say(f"[{max(0.0, (at - self._begun).total_seconds()):6.1f}s] {line}")
