"""Population-based training: trials go on from the checkpoints of better ones, with other values (Jaderberg 2017).

A population begins with members drawn at random. From then on every trial that ends has one heir: whoever is among the
worst quarter, or has failed, gives way to a member of the best quarter, whose checkpoint and values are taken over,
the values changed a little; all others are gone on with as they are. Which trial is whose heir follows from the order
in which trials have ended, so that no member waits for another.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from encamp.spec.tuning import ParameterType
from encamp.tuning.best import loss_of, ranked
from encamp.tuning.search import Suggestion
from encamp.tuning.simple import random_values
from encamp.tuning.space import neighbour, point_of, unit_of, value_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import ParameterPlan, StudyPlan
    from encamp.tuning.model import Trial, Value

#: Fewer have no worst and best quarter.
_LEAST_MEMBERS = 4
#: Shares of the best and of the worst members.
_QUARTER = 0.25
#: Probability that a value is drawn anew instead of moved.
_DRAWN_ANEW = 0.25
#: Distance by which a value is moved, on the unit interval.
_MOVE = 0.1


class PopulationSearch:
    """A population of as many members as run at a time, of four at least."""

    def __init__(self, study: StudyPlan) -> None:
        self._study = study
        self._members = min(max(study.max_parallel_trials, _LEAST_MEMBERS), study.max_trials)

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """Return what to try next; see ``Search``. Fewer than asked for if every member is being trained."""
        ended = sorted((one for one in trials if one.state.ended), key=lambda one: (one.ended or 0.0, one.number))
        ready = len(ended) + self._members - len(trials)
        return [self._next(len(trials) + index, ended) for index in range(max(0, min(count, ready)))]

    def exhausted(self, trials: Sequence[Trial]) -> bool:  # noqa: ARG002 - as the port says
        """Return False: a population can always be trained further."""
        return False

    def _next(self, index: int, ended: Sequence[Trial]) -> Suggestion:
        if index < self._members:
            return Suggestion(random_values(self._study, index))
        before = ended[index - self._members]
        others = [one for one in ended[-self._members :] if one is not before]
        standing = ranked(self._study, [before, *others])
        best = [one for one in standing[: _quarter(standing)] if self._usable(one)]
        if not best:
            return Suggestion(random_values(self._study, index))
        worst = standing[-_quarter(standing) :] if len(standing) > 1 else []
        if self._usable(before) and before not in worst:
            return Suggestion(dict(before.values), before.number)
        draw = random.Random(f"{self._study.seed}/{index}/population")  # noqa: S311 - a search, no secret
        parent = draw.choice(best)
        return Suggestion(self._changed(parent, draw, index), parent.number)

    def _usable(self, trial: Trial) -> bool:
        """Whether a trial has a checkpoint to go on from, and values of this study's space."""
        return loss_of(self._study, trial) is not None and point_of(self._study.parameters, trial.values) is not None

    def _changed(self, parent: Trial, draw: random.Random, index: int) -> dict[str, Value]:
        anew = random_values(self._study, index)
        return {
            one.name: _moved(one, parent.values[one.name], draw) if draw.random() >= _DRAWN_ANEW else anew[one.name]
            for one in self._study.parameters
        }


def _quarter(standing: Sequence[Trial]) -> int:
    return math.ceil(len(standing) * _QUARTER)


def _moved(parameter: ParameterPlan, value: Value, draw: random.Random) -> Value:
    """Return a value a little up or down the parameter's scale, by one value at least; categories stay as they are."""
    up = draw.choice((True, False))
    if parameter.type is ParameterType.CATEGORICAL:
        return value
    unit = unit_of(parameter, value) + (_MOVE if up else -_MOVE)
    moved = value_at(parameter, min(max(unit, 0.0), 1.0))
    return neighbour(parameter, value, up=up) if moved == value else moved
