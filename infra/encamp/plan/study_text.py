"""A study in lines for people, and the trial that a plan shows of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from encamp.plan.trial import trial_plan
from encamp.spec.tuning import Algorithm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.model import JobPlan
    from encamp.plan.study import ParameterPlan, StudyPlan

_METHODS = {
    Algorithm.ALGORITHM_UNSPECIFIED: "Bayesian optimisation",
    Algorithm.GRID_SEARCH: "grid search",
    Algorithm.RANDOM_SEARCH: "random search",
    Algorithm.POPULATION_BASED_TRAINING: "population based training",
}
#: Longest list of values that is shown whole.
_WIDTH = 60


def shown_trial(plan: JobPlan) -> JobPlan:
    """Return the plan to show: the job's own, or of a study its first trial's with names instead of values."""
    if plan.study is None:
        return plan
    return trial_plan(plan, 1, {one.name: f"<{one.name}>" for one in plan.study.parameters})


def study_lines(study: StudyPlan) -> list[str]:
    """Return a study, a line a fact."""
    lines = [
        f"search   {_METHODS[study.algorithm]}, {study.goal.value} {_quoted(study.metric)}",
        f"trials   {study.max_trials}, {study.max_parallel_trials} at a time; machines, quotas and cost are for these",
    ]
    if study.max_failed_trials:
        lines.append(f"failed   {study.max_failed_trials} failed trials end the job")
    if study.early_stopping:
        lines.append("stopping unpromising trials are stopped early")
    if study.resumes is not None:
        lines.append(f"resumes  the study of job {study.resumes}")
    return lines


def parameter_rows(study: StudyPlan) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each tuned parameter: name, type, values and scale."""
    for one in study.parameters:
        scale = one.scale.value.removeprefix("UNIT_").removesuffix("_SCALE").lower().replace("_", " ")
        yield _quoted(one.name), one.type.value, _space(one), "-" if one.type.value == "CATEGORICAL" else scale


def _space(one: ParameterPlan) -> str:
    if one.low is not None and one.high is not None:
        return f"{one.low:g} .. {one.high:g}"
    words = [_quoted(value) if isinstance(value, str) else f"{value:g}" for value in one.values]
    text = ", ".join(words)
    if len(text) <= _WIDTH:
        return text
    return f"{text[:_WIDTH].rpartition(',')[0] or text[: _WIDTH - 3]}, ... ({len(words)} in all)"


def _quoted(text: str) -> str:
    """Return a text as it is where it is plain to read, else in quotes."""
    plain = text.isprintable() and text.strip() == text and "," not in text and text
    return text if plain else json.dumps(text)
