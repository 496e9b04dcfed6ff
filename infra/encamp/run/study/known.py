"""What is known of a job's study: by the record, and by what is kept in the bucket where no record knows the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.study import StudyPlan
from encamp.run.study.journal import trials_of
from encamp.run.study.results import StudyResults, kept_trials

if TYPE_CHECKING:
    from encamp.cloud.storage import Storage
    from encamp.run.catalogue import KnownJob
    from encamp.run.journal import RunRecord


def recorded_results(record: RunRecord) -> StudyResults | None:
    """What the record knows of a job's study; None where the job tunes nothing, or where its intent is lost."""
    study = (record.intent or {}).get("study")
    found = StudyPlan.read(study) if study is not None else None
    return StudyResults(record.job_id, found, tuple(trials_of(record.entries))) if found is not None else None


def study_results(job: KnownJob, storage: Storage) -> StudyResults | None:
    """A job's study and its trials so far; None where the job tunes nothing, or where nothing of it is known.

    Raises:
        RestError: the bucket cannot be read.
    """
    recorded = job.study
    if recorded is not None or job.intent is not None:
        return recorded
    return kept_trials(storage, job.bucket, job.job_id)
