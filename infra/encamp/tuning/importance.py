"""The importance of each parameter for a study's metric.

The shares of functional ANOVA (Hutter, Hoos and Leyton-Brown, ICML 2014): a random forest learns the metric from the
values; how much its mean over all other parameters varies with one of them, beside how much it varies at all, is the
share of that one. What is left of 1 is due to parameters together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.tuning.best import loss_of
from encamp.tuning.space import point_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Trial

#: With fewer trials a forest tells of chance alone.
FEWEST = 8
_TREES = 64
_OTHERS = 128
_PLACES = 24


def importance(study: StudyPlan, trials: Sequence[Trial]) -> Mapping[str, float]:
    """Return each parameter's share of the variance, from 0 to 1; nothing if that cannot be said.

    The same study and trials give the same shares.
    """
    rows: list[list[float]] = []
    losses: list[float] = []
    for trial in sorted(trials, key=lambda one: one.number):
        point, loss = point_of(study.parameters, trial.values), loss_of(study, trial)
        if point is not None and loss is not None:
            rows.append(point)
            losses.append(loss)
    if len(rows) < FEWEST or min(losses) == max(losses):
        return {}
    return dict(zip((one.name for one in study.parameters), _shares(rows, losses, study.seed), strict=True))


def _shares(rows: list[list[float]], losses: list[float], seed: int) -> list[float]:
    """Return first-order shares of the variance of a forest fitted to ``losses`` at ``rows`` of the unit cube."""
    import numpy as np  # noqa: PLC0415 - takes a second, and only reports want it
    from scipy.stats import rankdata  # noqa: PLC0415
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    # By rank: a single diverged trial would else be all that there is to explain.
    forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=seed % 2**32)
    forest.fit(np.asarray(rows), rankdata(losses))
    others = np.random.default_rng(seed).random((_OTHERS, len(rows[0])))
    found: list[float] = []
    for column in range(len(rows[0])):
        asked = np.repeat(others[None], _PLACES, axis=0)
        asked[:, :, column] = np.linspace(0, 1, _PLACES)[:, None]
        learned = forest.predict(asked.reshape(-1, len(rows[0]))).reshape(_PLACES, _OTHERS)
        total = float(np.var(learned))
        found.append(float(np.var(learned.mean(axis=1))) / total if total > 0 else 0.0)
    # A share is of the whole; that all are more together is chance of the points that were asked.
    return [share / max(sum(found), 1.0) for share in found]
