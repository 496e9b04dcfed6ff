"""The methods that learn nothing from trials: random search and grid search."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from encamp.tuning.model import TrialState
from encamp.tuning.search import Suggestion
from encamp.tuning.space import level, levels, values_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Trial, Value

#: Steps of this share of a grid go round it most evenly, wherever one stops.
_GOLDEN = (math.sqrt(5) - 1) / 2


def random_values(study: StudyPlan, index: int) -> dict[str, Value]:
    """Return values drawn evenly from the study's space for its trial number ``index``, whatever the others have."""
    draw = random.Random(f"{study.seed}/{index}")  # noqa: S311 - a search, no secret
    return values_at(study.parameters, [draw.random() for _ in study.parameters])


class RandomSearch:
    """Random search: every trial is drawn evenly and on its own."""

    def __init__(self, study: StudyPlan) -> None:
        self._study = study

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """Return what to try next; see ``Search``."""
        return [Suggestion(random_values(self._study, len(trials) + index)) for index in range(count)]

    def exhausted(self, trials: Sequence[Trial]) -> bool:  # noqa: ARG002 - as the port says
        """Return False: a value may be drawn twice."""
        return False


class GridSearch:
    """Grid search: every point once, in the job file's order, or evenly over a grid that has more points than trials.

    Raises:
        ValueError: a parameter is a DOUBLE (H09).
    """

    def __init__(self, study: StudyPlan) -> None:
        self._parameters = study.parameters
        self._sizes = [_size(levels(one)) for one in study.parameters]
        self._points = math.prod(self._sizes)
        self._step = 1 if self._points <= study.max_trials else _step(self._points)

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """Return what to try next; see ``Search``. Values of cancelled trials are tried again."""
        untried = self._untried(trials)
        return [Suggestion(values) for values, _ in zip(untried, range(count), strict=False)]

    def exhausted(self, trials: Sequence[Trial]) -> bool:
        """Whether every point was tried."""
        return next(self._untried(trials), None) is None

    def _untried(self, trials: Sequence[Trial]) -> Iterator[dict[str, Value]]:
        tried = {self._key(trial.values) for trial in trials if trial.state is not TrialState.CANCELLED}
        for index in range(self._points):
            values = self._point(index * self._step % self._points)
            if self._key(values) not in tried:
                yield values

    def _key(self, values: Mapping[str, Value]) -> tuple[Value | None, ...]:
        return tuple(values.get(one.name) for one in self._parameters)

    def _point(self, number: int) -> dict[str, Value]:
        """Return the point that is ``number`` in the grid's order; the last parameter changes fastest."""
        found: dict[str, Value] = {}
        for one, size in zip(reversed(self._parameters), reversed(self._sizes), strict=True):
            number, index = divmod(number, size)
            found[one.name] = level(one, index)
        return {one.name: found[one.name] for one in self._parameters}


def _size(number: int | None) -> int:
    if number is None:
        raise ValueError("a grid has no parameter of type DOUBLE")
    return number


def _step(points: int) -> int:
    """Return the number nearest to the golden share of the points that leads through all of them."""
    step = round(points * _GOLDEN)
    while math.gcd(step, points) > 1:
        step += 1
    return step
