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

    #: A place in the unit cube, snapped.
    Point = NDArray[np.float64]

#: Trials before the first model: two for each parameter and one, but not more than that many.
_MOST_BEGINNERS = 10
#: Ways in which pending trials are imagined to end.
_WAYS = 8
#: The search for the next point begins also from so many of the best.
_BEST = 5
#: A model of more trials takes longer than it gains: the best of them, and the latest.
_MOST_MODELLED = 128
#: Metrics beyond this are as bad, or as good, as this: differences stay finite.
_HUGE = 1e150


class BayesianSearch:
    """Bayesian optimisation over every type of parameter."""

    def __init__(self, study: StudyPlan) -> None:
        self._study = study
        self._encoding = Encoding(study.parameters)
        self._beginners = min(2 * len(study.parameters) + 1, _MOST_BEGINNERS)

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """Return what to try next; see ``Search``."""
        points, losses = self._evidence(trials)
        pending = self._points([trial for trial in trials if not trial.state.ended])
        tried = self._points([trial for trial in trials if trial.state is not TrialState.CANCELLED])
        asked: list[Point] = []
        model: Surrogate | None = None
        # Small matrices gain nothing by threads, and with one the same numbers come out on every machine.
        with threadpool_limits(1):
            for index in range(len(trials), len(trials) + count):
                running = [*pending, *asked]
                if len(points) + len(running) < self._beginners or len(set(losses)) < 2:  # noqa: PLR2004
                    asked.append(self._beginner(index))
                    continue
                if model is None:
                    model = Surrogate.fitted(self._encoding.features(np.array(points)), flattened(np.array(losses)))
                draw = np.random.default_rng([self._study.seed, index])
                best = np.array(points)[np.argsort(losses, kind="stable")[:_BEST]]
                known = self._imagined(model, running, draw)
                asked.append(most_promising(known, self._encoding, best, np.array([*tried, *asked]), draw))
        return [Suggestion(values_at(self._study.parameters, point.tolist())) for point in asked]

    def exhausted(self, trials: Sequence[Trial]) -> bool:  # noqa: ARG002 - as the port says
        """Return False: when every point was tried, the most promising are tried again."""
        return False

    def _imagined(self, model: Surrogate, running: list[Point], draw: np.random.Generator) -> Surrogate:
        if not running:
            return model
        ways = qmc.MultivariateNormalQMC(np.zeros(len(running)), rng=draw).random(_WAYS)
        return model.imagined(self._encoding.features(np.array(running)), ways.T)

    def _beginner(self, index: int) -> Point:
        """Return point number ``index`` of a scrambled Sobol sequence."""
        sequence = qmc.Sobol(len(self._study.parameters), rng=self._study.seed)
        if index > 0:
            sequence.fast_forward(index)
        return self._encoding.snapped(sequence.random(1))[0]

    def _evidence(self, trials: Sequence[Trial]) -> tuple[list[Point], list[float]]:
        """Return points and losses of what has ended; a failed trial's loss is the worst that there is."""
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

    def _point(self, trial: Trial) -> Point | None:
        point = point_of(self._study.parameters, trial.values)
        return None if point is None else self._encoding.snapped(np.array([point]))[0]

    def _points(self, trials: Sequence[Trial]) -> list[Point]:
        return [point for trial in trials if (point := self._point(trial)) is not None]


def flattened(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return losses of mean 0 and deviation 1, those far from the best drawn nearer.

    Where it is bad, how bad it is tells little of where it is best, and would take all of the model's attention.
    """
    within = np.clip(losses, -_HUGE, _HUGE)
    gaps = within - within.min()
    flat = np.log1p(gaps / (float(np.median(gaps)) or float(gaps.max()) or 1.0))
    return (flat - flat.mean()) / (float(flat.std()) or 1.0)
