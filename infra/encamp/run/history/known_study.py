"""The results of a job's study: from the record, else from the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.run.store.study_results import StudyResults, kept_trials

if TYPE_CHECKING:
    from encamp.cloud.storage import Storage
    from encamp.run.history.catalogue import KnownJob


def study_results(job: KnownJob, storage: Storage) -> StudyResults | None:
    """Return a job's study and its trials so far; None if the job tunes nothing, or nothing of it is known.

    Raises:
        RestError: the bucket cannot be read.
    """
    recorded = job.study
    if recorded is not None or job.intent is not None:
        return recorded
    return kept_trials(storage, job.bucket, job.job_id)
