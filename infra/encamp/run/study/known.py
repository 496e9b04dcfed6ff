"""What is known of a job's study: the record's trials and those kept in the bucket together, whoever drives the job.

The record is the newer of the two while a driver that writes to it is at work; the bucket knows also of drivers on
other machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.study import StudyPlan
from encamp.run.study.journal import trials_of
from encamp.run.study.results import StudyResults, kept_trials

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp.cloud.storage import Storage
    from encamp.run.catalogue import KnownJob
    from encamp.run.journal import RunRecord
    from encamp.tuning.model import Trial


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
    if recorded is None and job.intent is not None:
        return None
    kept = kept_trials(storage, job.bucket, job.prefix)
    if kept is None or kept.job_id != job.job_id:
        return recorded
    return StudyResults(job.job_id, kept.study, _together(recorded.trials if recorded is not None else (), kept.trials))


def _together(recorded: Iterable[Trial], kept: Iterable[Trial]) -> tuple[Trial, ...]:
    """Each trial by number, as whoever knows more says it."""
    found = {trial.number: trial for trial in kept}
    for trial in recorded:
        known = found.get(trial.number)
        if known is None or not known.state.ended:
            found[trial.number] = trial
    return tuple(found[number] for number in sorted(found))
