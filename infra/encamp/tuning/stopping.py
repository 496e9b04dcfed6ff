"""Early stopping: the median rule, as Vizier has it (Golovin et al. 2017, section 3.2.2)."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from encamp.spec.tuning import Goal
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Measurement, Trial

#: Fewer curves to compare with have no middle worth the name.
_LEAST = 3


def unpromising(study: StudyPlan, trials: Sequence[Trial], trial: Trial) -> bool:
    """Whether a trial may be stopped: its best so far is worse than the median of what the others were on average.

    The others are the trials that succeeded and have come as far in steps, each with the average of what it reported
    up to the same step. Nothing is stopped while there are fewer than three of them, nor before a trial's second
    report. Reports that are no numbers count for nothing; a trial that has had no others is unpromising.

    Args:
        study: whose goal says what is better.
        trials: all of the study.
        trial: the one in question, with what it has reported.
    """
    if len(trial.measurements) < 2:  # noqa: PLR2004
        return False
    sign = 1.0 if study.goal is Goal.MINIMIZE else -1.0
    step = max(one.step for one in trial.measurements)
    averages = [
        statistics.fmean(reached)
        for other in trials
        if other.state is TrialState.SUCCEEDED and other.number != trial.number
        if max((one.step for one in other.measurements), default=-1) >= step
        if (reached := _losses(sign, other.measurements, step))
    ]
    if len(averages) < _LEAST:
        return False
    own = _losses(sign, trial.measurements, step)
    return not own or min(own) > statistics.median(averages)


def _losses(sign: float, measurements: Sequence[Measurement], last: int) -> list[float]:
    """Return the reports up to a step, with the sign at which less is better."""
    return [sign * one.value for one in measurements if one.step <= last and math.isfinite(one.value)]
