"""Jobs from Python, such as from a notebook: what the verbs of the command line do, as functions with typed results.

    from encamp import jobs

    run = jobs.run("job.yaml", environment="sandbox")
    print(run.state, run.job_dir)

The commands of the same names call these functions, or what these are made of. Nothing is printed. What goes wrong is
an ``EncampError``; a training that fails is no error but the ``state`` of the result.

``environment`` names a stack of an environment; where it is left out, it is that of ``ENCAMP_ENVIRONMENT``, else
``sandbox``. While a call about the sandbox lasts, this process's environment variables lead to the sandbox's cloud;
they are as before when it returns. So calls of several threads may run at the same time if all are about the sandbox,
or none is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from encamp.jobs.model import (
    CopiedResults,
    JobDetails,
    JobRun,
    JobSummary,
    LeftOutObject,
    LogLine,
    LogLines,
    PlanSummary,
)

if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import Callable, Mapping

    from encamp.spec.job import TrainingJobSpec

    JobSource = str | os.PathLike[str] | Mapping[str, Any] | TrainingJobSpec

__all__ = [
    "CopiedResults",
    "JobDetails",
    "JobRun",
    "JobSummary",
    "LeftOutObject",
    "LogLine",
    "LogLines",
    "PlanSummary",
    "cancel",
    "describe",
    "list",
    "logs",
    "plan",
    "results",
    "run",
]


def plan(
    job: JobSource,
    *,
    environment: str | None = None,
    job_id: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> PlanSummary:
    """Decide what a job becomes, without engine, cloud or network: ``encamp plan``.

    Args:
        job: path of a job file; or the job itself, typed or as a mapping with a job file's keys.
        environment: stack of the environment.
        job_id: id of the job; wins over the file's own.
        folder: folder that ``encamp.packagePath`` of a job that is no file is relative to; else the current one.

    Raises:
        SpecError: everything that is wrong with the job.
        PlanError: it cannot run in this environment.
        UsageError: there is no such file, folder or environment.
    """
    from encamp.default_stack import chosen_environment  # noqa: PLC0415
    from encamp.jobs.given import GivenJob  # noqa: PLC0415 - the command line imports this room for its help pages
    from encamp.jobs.running import planned  # noqa: PLC0415

    return PlanSummary.of(planned(GivenJob(job, folder), job_id, chosen_environment(environment)))


def run(
    job: JobSource,
    *,
    environment: str | None = None,
    job_id: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    on_step: Callable[[str], None] | None = None,
    on_line: Callable[[str, str], None] | None = None,
) -> JobRun:
    """Run a job to its end, keep its results, and take down all that it made: ``encamp run``.

    Returns when nothing of the job is left but its results. An interrupt (Ctrl-C, or the stop button of a notebook)
    cancels the job, which is then taken down all the same.

    Args:
        job: as for ``plan``.
        environment: stack of the environment, which must be up.
        job_id: id of the job, which no job had before; else the file's own, else one made of its name and the time.
        folder: as for ``plan``.
        on_step: gets each step of encamp, a line of text, in any thread. What it raises is ignored.
        on_line: gets a replica's name and a line of its log, likewise.

    Raises:
        SpecError, PlanError: as ``plan``.
        UsageError: also: the job id was used before, or the job's data is not as it must be. Nothing was made.
        EngineError: the infrastructure failed; the job was taken down.
        TeardownError: something of the job may still exist; ``encamp reap`` tries again.
    """
    from encamp.jobs.given import GivenJob  # noqa: PLC0415 - as for `plan`
    from encamp.jobs.opening import quiet_context  # noqa: PLC0415
    from encamp.jobs.running import run_named  # noqa: PLC0415
    from encamp.jobs.visiting import visiting  # noqa: PLC0415

    with visiting(environment) as stack:
        result = run_named(GivenJob(job, folder), job_id, stack, lambda: quiet_context(on_step, on_line))
    return JobRun.of(result)


def list(*, environment: str | None = None, state: str | None = None) -> tuple[JobSummary, ...]:  # noqa: A001 - the verb
    """Return every job of an environment, newest first, of any machine: ``encamp list``.

    Args:
        environment: stack of the environment.
        state: only jobs in this state, such as ``RUNNING``.

    Raises:
        UsageError: there is no such environment.
        RestError: its bucket cannot be listed.
    """
    from encamp.jobs.opening import opened  # noqa: PLC0415 - as for `plan`

    with opened(environment) as known:
        now = datetime.now(UTC)
        found = known.catalogue.jobs()
        return tuple(JobSummary.of(job, now) for job in found if state is None or job.state == state.upper())


def describe(job: str, *, environment: str | None = None) -> JobDetails:
    """Return one job, as AI Platform showed it and with what encamp knows beside that: ``encamp describe``.

    Args:
        job: its id.
        environment: stack of the environment.

    Raises:
        UsageError: nobody knows the job; names the nearest id.
        RestError: the bucket cannot be read.
    """
    from encamp.jobs.opening import opened  # noqa: PLC0415 - as for `plan`
    from encamp.run.history.job_resource import job_resource  # noqa: PLC0415

    with opened(environment) as known:
        found = known.catalogue.job(job)
        return JobDetails.of(found, job_resource(found, known.storage, known.spool(found)))


def logs(
    job: str,
    *,
    environment: str | None = None,
    replica: str | None = None,
    tail: int | None = None,
    since: datetime | timedelta | None = None,
) -> LogLines:
    """Return what a job's replicas have written so far, while it runs or after its end: ``encamp logs``.

    All of it is held in memory: of a long log ask for a part.

    Args:
        job: its id.
        environment: stack of the environment.
        replica: only this one's log, such as ``worker-replica-1``.
        tail: only the last so many lines of each replica.
        since: only lines since this time (with its time zone), or since so long ago.

    Raises:
        UsageError: nobody knows the job or the replica, or the logs are nowhere; says where they may be.
        RestError: the bucket cannot be read.
    """
    from encamp.jobs.log_parts import log_part, parts_of  # noqa: PLC0415 - as for `plan`
    from encamp.jobs.opening import opened  # noqa: PLC0415

    moment = datetime.now(UTC) - since if isinstance(since, timedelta) else since
    lines: builtins.list[LogLine] = []
    with opened(environment) as known, known.logs(job).views() as views:
        lacking: dict[str, str] = {}
        for view, part in parts_of(views, replica, log_part(tail, moment)):
            lines += (LogLine.of(view.log.replica, line) for line in part)
            if view.log.reason:
                lacking[view.log.replica] = view.log.reason
    return LogLines(job, tuple(lines), lacking)


def results(
    job: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    environment: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CopiedResults:
    """Copy what a job left to a folder of this machine: ``encamp results``. Called again, it goes on.

    Args:
        job: its id.
        folder: where to; else a folder of the job's id in the current one.
        environment: stack of the environment.
        progress: gets the bytes that are there so far, and those of all files.

    Raises:
        UsageError: the job keeps no output, or the folder cannot be written.
        EngineError: the disk is full, or bytes differ from their checksum twice.
        RestError: a bucket cannot be read.
    """
    from encamp.jobs.copying import copy_results  # noqa: PLC0415 - as for `plan`
    from encamp.jobs.opening import opened  # noqa: PLC0415

    with opened(environment) as known:
        return copy_results(known, job, folder if folder is not None else job, progress)


def cancel(job: str, *, environment: str | None = None, wait: bool = True) -> JobDetails:
    """Stop a job, keep its logs, and take it down: ``encamp cancel``.

    Args:
        job: its id.
        environment: stack of the environment.
        wait: return when it is CANCELLED and nothing of it is left; else once the request is on record.

    Raises:
        UsageError: there is no such job here, or it has ended before.
        EngineError: it did not end within an hour.
        TeardownError: something of it may still exist.
    """
    from encamp.jobs.cancelling import begin, request_cancel, wait_until_cancelled  # noqa: PLC0415 - as for `plan`
    from encamp.jobs.opening import opened  # noqa: PLC0415
    from encamp.run.history.job_resource import job_resource  # noqa: PLC0415

    with opened(environment) as known:
        asked = request_cancel(known, job, lambda _: None)
        if wait or asked.torn_down:
            wait_until_cancelled(known, asked, lambda _: None)
        else:
            begin(known, asked, lambda _: None)
        found = known.catalogue.job(job)
        return JobDetails.of(found, job_resource(found, known.storage, known.spool(found)))
