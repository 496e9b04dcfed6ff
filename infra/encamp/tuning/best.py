"""The ranking of trials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from encamp.spec.tuning import Goal
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Trial


def ranked(study: StudyPlan, trials: Sequence[Trial]) -> list[Trial]:
    """Return all trials, best first (spec 7.6).

    First those that succeeded with a metric, of equals the earlier; then those whose metric is no number, then all
    others, each by number. A failed trial is no candidate, whatever it had reported.
    """
    return sorted(trials, key=lambda trial: (*_standing(study, trial), trial.number))


def better(study: StudyPlan, one: float, other: float) -> bool:
    """Whether a metric is better than another, by the study's goal."""
    return one < other if study.goal is Goal.MINIMIZE else one > other


def loss_of(study: StudyPlan, trial: Trial) -> float | None:
    """Return the final metric, turned so that less is better; None if there is none, or none that is finite."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None or not math.isfinite(trial.final.value):
        return None
    return trial.final.value if study.goal is Goal.MINIMIZE else -trial.final.value


def _standing(study: StudyPlan, trial: Trial) -> tuple[int, float]:
    loss = loss_of(study, trial)
    if loss is not None:
        return 0, loss
    return (1 if trial.state is TrialState.SUCCEEDED and trial.final is not None else 2), 0.0
