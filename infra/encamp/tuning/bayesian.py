"""The default method: Bayesian optimisation with a Gaussian process and expected improvement.

The first trials are spread evenly over the space. From then on a model of the metric is fitted to all that have ended,
and the next trial is where it expects to gain most. Trials that still run are imagined to end in several ways, so that
parallel trials keep out of each other's way; failed ones count as the worst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import qmc
from threadpoolctl import threadpool_limits

from encamp.tuning.acquisition import most_promising
from encamp.tuning.best import loss_of
from encamp.tuning.encoding import Encoding
from encamp.tuning.model import TrialState
from encamp.tuning.search import Suggestion
from encamp.tuning.space import point_of, values_at
from encamp.tuning.surrogate import Surrogate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Trial

#: Trials before the first model: two for each parameter and one, but not more than that many.
_MOST_BEGINNERS = 10
#: Ways in which pending trials are imagined to end.
_WAYS = 8
#: The search for the next point begins also from so many of the best.
_BEST = 5
#: A model of more trials takes longer than it gains: the best of them, and the latest.
_MOST_MODELLED = 128


class BayesianSearch:
    """Bayesian optimisation over every type of parameter."""

    def __init__(self, study: StudyPlan) -> None:
        self._study = study
        self._encoding = Encoding(study.parameters)

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """What to try next; see ``Search``."""
        points, losses = self._evidence(trials)
        pending = [self._point(trial) for trial in trials if not trial.state.ended]
        pending = [point for point in pending if point is not None]
        asked: list[NDArray[np.float64]] = []
        # Small matrices gain nothing by threads, and with one the same numbers come out on every machine.
        with threadpool_limits(1):
            for index in range(len(trials), len(trials) + count):
                asked.append(self._next(points, losses, [*pending, *asked], index))
        return [Suggestion(values_at(self._study.parameters, point.tolist())) for point in asked]

    def exhausted(self, trials: Sequence[Trial]) -> bool:  # noqa: ARG002 - as the port says
        """Never: where every point was tried, the most promising are tried again."""
        return False

    def _next(
        self,
        points: list[NDArray[np.float64]],
        losses: list[float],
        pending: list[NDArray[np.float64]],
        index: int,
    ) -> NDArray[np.float64]:
        beginners = min(2 * len(self._study.parameters) + 1, _MOST_BEGINNERS)
        if len(points) + len(pending) < beginners or len(set(losses)) < 2:  # noqa: PLR2004
            return self._beginner(index)
        draw = np.random.default_rng([self._study.seed, index])
        known, flat = np.array(points), flattened(np.array(losses))
        order = np.argsort(flat, kind="stable")
        surrogate = Surrogate(self._encoding.features(known), flat)
        if pending:
            ways = qmc.MultivariateNormalQMC(np.zeros(len(pending)), rng=draw).random(_WAYS)
            surrogate.imagine(self._encoding.features(np.array(pending)), ways.T)
        tried = np.array([*points, *pending])
        return most_promising(surrogate, self._encoding, known[order[:_BEST]], tried, draw)

    def _beginner(self, index: int) -> NDArray[np.float64]:
        """Point number ``index`` of a scrambled Sobol sequence."""
        sequence = qmc.Sobol(len(self._study.parameters), rng=self._study.seed)
        if index > 0:
            sequence.fast_forward(index)
        return self._encoding.snapped(sequence.random(1))[0]

    def _evidence(self, trials: Sequence[Trial]) -> tuple[list[NDArray[np.float64]], list[float]]:
        """Points and losses of what has ended; a failed trial's loss is the worst that there is."""
        ended = [
            (point, loss_of(self._study, trial))
            for trial in trials
            if trial.state in {TrialState.SUCCEEDED, TrialState.FAILED} and (point := self._point(trial)) is not None
        ]
        worst = max((loss for _, loss in ended if loss is not None), default=0.0)
        found = [(point, worst if loss is None else loss) for point, loss in ended]
        if len(found) > _MOST_MODELLED:
            best = sorted(found[: -_MOST_MODELLED // 2], key=lambda one: one[1])[: _MOST_MODELLED // 2]
            found = [*best, *found[-_MOST_MODELLED // 2 :]]
        return [point for point, _ in found], [loss for _, loss in found]

    def _point(self, trial: Trial) -> NDArray[np.float64] | None:
        point = point_of(self._study.parameters, trial.values)
        return None if point is None else self._encoding.snapped(np.array([point]))[0]


def flattened(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Losses of mean 0 and deviation 1, those far from the best drawn nearer.

    Where it is bad, how bad it is tells little of where it is best, and would take all of the model's attention.
    """
    gaps = losses - losses.min()
    middle = float(np.median(gaps))
    flat = np.log1p(gaps / (middle if middle > 0 else float(gaps.max())))
    return (flat - flat.mean()) / flat.std()
