"""Rules for the end of a study, and for the result of a trial's measurements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from encamp.run.store.states import Outcome, State
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Measurement, Trial

#: Number of failed trials that end a study without a limit in the job file.
_FIRST = 3


def final_of(measurements: Sequence[Measurement]) -> Measurement | None:
    """Return the measurement that counts: that of the largest step, the latest of those."""
    return max(reversed(measurements), key=lambda one: one.step, default=None)


def without_metric(tag: str, final: Measurement | None) -> str:
    """Return why a trial that ended well has failed all the same, empty if it has not."""
    if final is None:
        return f"it reported no metric {tag!r}"
    return "" if math.isfinite(final.value) else f"its metric {tag!r} was {final.value} at step {final.step}"


def kept(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements for the record: those that are finite."""
    return tuple(one for one in measurements if math.isfinite(one.value))


def failed(study: StudyPlan, own: Sequence[Trial]) -> Outcome | None:
    """Return the outcome if failed trials end the study, None if it goes on.

    Without a limit of the job's, that is when each of the first trials has failed, three or as many as run at a time: a
    job that cannot work at all is found out early, and one unlucky trial ends nothing. ``own`` are the trials of this
    job, by number.
    """
    failures = [trial for trial in own if trial.state is TrialState.FAILED]
    if not failures:
        return None
    if study.max_failed_trials:
        if len(failures) < study.max_failed_trials:
            return None
        words = f"{_trials(len(failures))} failed, and maxFailedTrials is {study.max_failed_trials}"
        return Outcome(State.FAILED, f"{words}: {_first(failures)}")
    enough = min(max(_FIRST, study.max_parallel_trials), study.max_trials)
    first = own[:enough]
    if len(first) < enough or any(trial.state is not TrialState.FAILED for trial in first):
        return None
    return Outcome(State.FAILED, f"the first {_trials(len(first))} failed: {_first(failures)}")


def done(own: Sequence[Trial]) -> Outcome:
    """Return the outcome of a study of which nothing more is to be tried."""
    if any(trial.state is TrialState.SUCCEEDED for trial in own):
        return Outcome(State.SUCCEEDED)
    failures = [trial for trial in own if trial.state is TrialState.FAILED]
    return Outcome(State.FAILED, f"no trial succeeded{f': {_first(failures)}' if failures else ''}")


def _first(failures: Sequence[Trial]) -> str:
    return f"trial {failures[0].number}: {failures[0].message}"


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"
