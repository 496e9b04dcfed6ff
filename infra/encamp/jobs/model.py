"""The results of the functions of ``encamp.jobs``: frozen, and with the fields that the command line shows.

Times have a time zone, prices are USD by list prices, sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.run.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from encamp.plan.model import JobPlan
    from encamp.run.history.catalogue import KnownJob
    from encamp.run.history.log_view import TimedLine
    from encamp.run.lifecycle.ending import RunResult
    from encamp.run.watch.restarts import Restarts


@dataclass(frozen=True)
class PlanSummary:
    """The plan of a job: its replicas, machines, warnings and cost.

    Attributes:
        replicas: how many of each role, such as ``{"master": 1, "worker": 2}``; of a study, those of one trial.
        machine_types: of each role.
        job_dir: where the replicas write to, None where nothing would be kept.
        hourly_usd: an hour with every replica on its machine, None where a price is not known.
        one_run_usd: one run without a restart, None likewise, and where the job does not say how long it may be.
        worst_case_usd: every machine there until the last limit that ends the job, None where a price is not known.
        warnings: what may go wrong, or is not as in AI Platform.
        document: the whole plan as JSON data, without secrets: ``encamp plan --format json``.
    """

    job_id: str
    environment: str
    region: str
    replicas: Mapping[str, int]
    machine_types: Mapping[str, str]
    job_dir: str | None
    hourly_usd: float | None
    one_run_usd: float | None
    worst_case_usd: float | None
    warnings: tuple[str, ...]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, plan: JobPlan) -> PlanSummary:
        """The public part of a plan."""
        from encamp.plan.document import job_document  # noqa: PLC0415 - help pages import this module
        from encamp.redaction import redacted, redacted_data  # noqa: PLC0415

        cost = plan.cost
        return cls(
            job_id=plan.job_id,
            environment=plan.environment,
            region=plan.region,
            replicas={str(group.role): group.count for group in plan.groups},
            machine_types={str(group.role): group.machine_type for group in plan.groups},
            job_dir=plan.storage.job_dir,
            hourly_usd=cost.hourly if cost is not None else None,
            one_run_usd=cost.expected if cost is not None else None,
            worst_case_usd=cost.worst_case if cost is not None else None,
            warnings=tuple(map(redacted, plan.warnings)),
            document=redacted_data(job_document(plan, full=False)),
        )


@dataclass(frozen=True)
class JobSummary:
    """One line of a list.

    Attributes:
        state: as in the Job resource; ``STATE_UNSPECIFIED`` where only objects in the bucket tell of the job.
        created: when it was accepted, None where nothing tells.
        running_seconds: how long it trains or trained, None where it never did or its end is not known.
        cost_usd: what it cost by list prices, None before its end and where a price is not known.
        cost_so_far_usd: what its machines have cost until now, None once it has ended.
        restarts: what was started again of a job that goes on, None where nothing was.
        trials: how far a tuning job has come, None where it tunes nothing.
        driver: who drives it, None where nobody does or that is not known here.
        position: its place among those that wait, from 1; None where it does not wait.
    """

    job_id: str
    state: str
    created: datetime | None
    running_seconds: float | None
    cost_usd: float | None
    cost_so_far_usd: float | None
    restarts: Restarts | None
    trials: Mapping[str, Any] | None
    driver: str | None
    position: int | None

    @classmethod
    def of(cls, job: KnownJob, now: datetime) -> JobSummary:
        """The summary of a job of the catalogue."""
        seconds = job.running_seconds(now)
        return cls(
            job_id=job.job_id,
            state=job.state,
            created=job.created,
            running_seconds=None if seconds is None else round(seconds, 3),
            cost_usd=job.cost,
            cost_so_far_usd=job.cost_so_far(now),
            restarts=job.restarts,
            trials=None if job.trials is None else dict(job.trials),
            driver=job.driver,
            position=job.position or None,
        )

    def to_json(self) -> dict[str, Any]:
        """Texts, seconds and USD, None for what is not known: ``encamp list --format json``."""
        return {
            "jobId": self.job_id,
            "state": self.state,
            "createTime": rfc3339(self.created),
            "runningSeconds": self.running_seconds,
            "costUsd": self.cost_usd,
            "costSoFarUsd": self.cost_so_far_usd,
            "restarts": None if self.restarts is None else {**self.restarts.to_json(), "text": str(self.restarts)},
            "trials": self.trials,
            "driver": self.driver,
            "position": self.position,
        }


@dataclass(frozen=True)
class JobRun:
    """A job that was run to its end.

    Attributes:
        state: ``SUCCEEDED``, ``FAILED`` or ``CANCELLED``.
        message: why it ended so; empty for a success.
        last_lines: the end of the log of the replica that failed first.
        job_dir: where its output is, None where it had no job dir and nothing was kept.
        results: ``gs://`` folder of its logs and its receipt.
        cost_usd: what its machines cost, None where a price is not known.
        receipt: what it was and used, as ``receipt.json`` says it; None where it could not be written.
    """

    job_id: str
    state: str
    message: str
    last_lines: tuple[str, ...]
    job_dir: str | None
    results: str
    cost_usd: float | None
    receipt: Mapping[str, Any] | None

    @property
    def succeeded(self) -> bool:
        """Whether it is ``SUCCEEDED``."""
        return self.state == "SUCCEEDED"

    @classmethod
    def of(cls, result: RunResult) -> JobRun:
        """The public part of a result.

        Raises:
            TeardownError: something of the job may still exist.
            EncampError: the infrastructure failed.
        """
        from encamp.run.store.states import State  # noqa: PLC0415 - help pages import this module

        if result.teardown_error is not None:
            raise result.teardown_error
        outcome, receipt = result.outcome, result.receipt or {}
        if result.error is not None and outcome.state is not State.CANCELLED:
            raise result.error
        return cls(
            job_id=result.job_id,
            state=str(outcome.state),
            message=outcome.message,
            last_lines=outcome.failure.last_lines if outcome.failure is not None else (),
            job_dir=(receipt.get("results") or {}).get("jobDir"),
            results=result.results,
            cost_usd=(receipt.get("cost") or {}).get("amount"),
            receipt=result.receipt,
        )


@dataclass(frozen=True)
class JobDetails:
    """One job as it is now.

    Attributes:
        state: as in the Job resource; ``STATE_UNSPECIFIED`` where only objects in the bucket tell of it.
        created: when it was accepted; ``started`` when every replica had, ``ended`` when it reached its last state.
        message: why it ended so; empty where nothing is known.
        job_dir: where it writes, None where nothing is kept or it is not known.
        results: ``gs://`` folder of what stays of it.
        resource: the Job resource, with encamp's own block: ``encamp describe --format json``.
    """

    job_id: str
    state: str
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    message: str
    job_dir: str | None
    results: str
    resource: Mapping[str, Any]

    @classmethod
    def of(cls, job: KnownJob, resource: Mapping[str, Any]) -> JobDetails:
        """The public part of a job of the catalogue."""
        own = resource["encamp"]
        return cls(
            job_id=job.job_id,
            state=job.state,
            created=job.created,
            started=job.started,
            ended=job.ended,
            message=job.message,
            job_dir=own.get("jobDir"),
            results=own["results"],
            resource=resource,
        )


@dataclass(frozen=True)
class LogLine:
    """One line of a replica's log; ``at`` is when encamp got it, within half a second."""

    replica: str
    at: datetime
    text: str

    @classmethod
    def of(cls, replica: str, line: TimedLine) -> LogLine:
        """A line as text; bytes that are no UTF-8 are shown as escapes."""
        from encamp.run.logs.log_lines import plain  # noqa: PLC0415 - help pages import this module
        from encamp.run.times import moment  # noqa: PLC0415

        return cls(replica, moment(line.at), plain(line.text).decode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class LogLines:
    """Lines of a job's replicas, replica by replica.

    Attributes:
        lacking: of each replica whose log is not whole, why.
    """

    job_id: str
    lines: tuple[LogLine, ...]
    lacking: Mapping[str, str]

    def __str__(self) -> str:
        """Every line after its replica's name."""
        return "\n".join(f"{line.replica} | {line.text}" for line in self.lines)


@dataclass(frozen=True)
class LeftOutObject:
    """An object that was not copied, and why."""

    uri: str
    reason: str


@dataclass(frozen=True)
class CopiedResults:
    """The files that were copied.

    Attributes:
        folder: where to.
        files: how many files came.
        size: their bytes.
        already_there: how many files were there before, as they are in the bucket.
        left_out: what was not copied, such as names that would lead out of the folder.
        goes_on: the job had not ended, so there may be more later; its state then, empty where it had.
    """

    folder: Path
    files: int
    size: int
    already_there: int
    left_out: tuple[LeftOutObject, ...]
    goes_on: str
