"""From a submitted job to a request that a driver runs, and the end of a job that cannot be run."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError, ExitCode, UsageError
from encamp.plan.job import plan_job
from encamp.run.lifecycle.driver import JobRequest
from encamp.run.store.actor import Actor
from encamp.run.store.submissions import Submissions
from encamp.run.store.transactions import RecordError
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.model import JobPlan
    from encamp.run.store.encryption import Cipher
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec


@contextlib.contextmanager
def beginning(records: Records, job_id: str) -> Iterator[None]:
    """Begin a waiting job: what goes wrong before it has begun decides whether it is retried.

    Bad input cannot become better: the job is FAILED and says why. Of anything else the record keeps what it was. Once
    the job has begun nothing of this counts.

    Raises:
        UsageError: it does not wait any more.
    """
    submissions = Submissions(records)
    if not submissions.check_in(job_id):
        raise UsageError("this job does not wait any more", where=job_id, hint=f"`encamp describe {job_id}`")
    try:
        yield
    except EncampError as error:
        with contextlib.suppress(RecordError):
            if error.exit_code == ExitCode.BAD_INPUT:
                submissions.fail(job_id, f"the job could not be begun: {error}")
            else:
                submissions.note_trouble(job_id, str(error))
        raise


def sent_job(records: Records, cipher: Cipher, job_id: str) -> tuple[RunRecord, dict[str, Any]]:
    """Return the record of a job that waits, and the job as it was sent, with the labels that it has now.

    Raises:
        UsageError: it does not wait, or cannot be opened.
    """
    job = Submissions(records, cipher).opened(job_id)
    record = records.record(job_id)
    if record is None:
        raise UsageError("no such job in the record", where=job_id)
    return record, job if record.labels is None else {**job, "labels": record.labels}


def sent_request(records: Records, cipher: Cipher, job_id: str, spec: EnvironmentSpec, environment: str) -> JobRequest:
    """Return the request of a waiting job for this machine's driver; ``environment`` is the name of ``spec``'s stack.

    Raises:
        SpecError, PlanError, UsageError: it cannot be run; says why.
    """
    record, data = sent_job(records, cipher, job_id)
    if record.environment != environment:
        raise UsageError(f"this job was handed in for environment {record.environment}", where=job_id)
    found = parse_job(data, source=job_id)
    plan = planned_again(found.job, spec, record)
    return JobRequest(
        plan,
        found.job.model_dump(mode="json", by_alias=True, exclude_none=True),
        environment,
        detached=True,
        started_by=handed_in_by(record),
        submitted=True,
        waited=waited(record),
    )


def planned_again(job: TrainingJobSpec, spec: EnvironmentSpec, record: RunRecord) -> JobPlan:
    """Return the plan of a job that waits, under the name that it has on record.

    Raises:
        PlanError: it cannot run any more, or belongs to another environment by now.
    """
    return plan_job(job, spec, name=record.name)


def handed_in_by(record: RunRecord) -> Actor:
    """Return who submitted a job, by way of this machine."""
    account = record.submitted.by if record.submitted is not None else ""
    return replace(Actor.myself(), account=account or None)


def waited(record: RunRecord) -> float:
    """Return the seconds for which a job has waited."""
    return max(0.0, time.time() - record.created.timestamp())
