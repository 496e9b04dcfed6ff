"""The results of a job's study: from the record, else from the bucket."""

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
    """Return a study's results from the record; None if the job tunes nothing, or its intent is lost."""
    study = (record.intent or {}).get("study")
    found = StudyPlan.read(study) if study is not None else None
    return StudyResults(record.job_id, found, tuple(trials_of(record.entries))) if found is not None else None


def study_results(job: KnownJob, storage: Storage) -> StudyResults | None:
    """Return a job's study and its trials so far; None if the job tunes nothing, or nothing of it is known.

    Raises:
        RestError: the bucket cannot be read.
    """
    recorded = job.study
    if recorded is not None or job.intent is not None:
        return recorded
    return kept_trials(storage, job.bucket, job.job_id)
