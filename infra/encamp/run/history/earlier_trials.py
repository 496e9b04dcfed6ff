"""The trials that a study resumes: an earlier job's, from its record, else from its kept results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.run.store.study_results import kept_trials, recorded_results
from encamp.run.store.trial_journal import trials_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.cloud.storage import Storage
    from encamp.plan.study import StudyPlan
    from encamp.run.store.records import Records
    from encamp.tuning.model import Trial

_WHERE = "trainingInput.hyperparameters.resumePreviousJobId"


def earlier_trials(study: StudyPlan, records: Records, storage: Storage, bucket: str) -> list[Trial]:
    """Return the ended trials of the job that a study resumes, by number; none if it resumes none.

    Args:
        study: what goes on.
        records: asked first.
        storage: asked where no record knows that job; of ``bucket``, the environment's artifacts bucket.
        bucket: its name.

    Raises:
        UsageError: no trials of that job are known, or they are of another search.
        RestError: the bucket cannot be read.
    """
    job = study.resumes
    if job is None:
        return []
    record = records.record(job)
    earlier = recorded_results(record) if record is not None else None
    if record is None or (earlier is None and record.intent is None):
        earlier = kept_trials(storage, bucket, job)
    if earlier is not None:
        _same(study, earlier.study)
    found = earlier.trials if earlier is not None else trials_of(record.entries) if record is not None else ()
    trials = [trial if trial.job_id else replace(trial, job_id=job) for trial in found if trial.state.ended]
    if not trials:
        raise UsageError(
            f"no trials of job {job} are known here",
            where=_WHERE,
            hint="name a tuning job of this environment that has ended; `encamp list` names every job",
        )
    _same_parameters(study, trials)
    return trials


def differences(before: StudyPlan, study: StudyPlan) -> list[tuple[str, str, str]]:
    """Return the differences in judging between a study and the resumed one: each field, its old and its new value."""
    pairs = (("goal", before.goal, study.goal), ("hyperparameterMetricTag", before.metric, study.metric))
    return [(what, then, now) for what, then, now in pairs if then != now]


def _same(study: StudyPlan, before: StudyPlan) -> None:
    for what, then, now in differences(before, study):
        raise UsageError(
            f"job {study.resumes} searched with {what} {then}, this job names {now}",
            where=f"trainingInput.hyperparameters.{what}",
            hint="a study goes on with what it began with; take the same, or leave out resumePreviousJobId",
        )


def _same_parameters(study: StudyPlan, trials: Sequence[Trial]) -> None:
    wanted = {one.name for one in study.parameters}
    other = next((trial for trial in trials if set(trial.values) != wanted), None)
    if other is not None:
        raise UsageError(
            f"job {study.resumes} tuned {', '.join(sorted(other.values))}, this job tunes {', '.join(sorted(wanted))}",
            where="trainingInput.hyperparameters.params",
            hint="a study goes on with the parameters that it began with; leave out resumePreviousJobId for a new one",
        )
