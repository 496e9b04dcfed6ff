"""The acquisition of the next point: the greatest expected improvement, searched over the whole unit cube."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.stats import qmc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from encamp.tuning.encoding import Encoding
    from encamp.tuning.surrogate import Surrogate

#: Looked at first: points all over the cube, and points about each of the best trials.
_OVERALL, _ABOUT_EACH = 512, 40
_REACHES = (0.3, 0.1, 0.03, 0.01)
#: Then from the best few of those, at some distance from each other, ever smaller steps are taken.
_STARTS, _APART = 6, 0.1
_ROUNDS, _STEPS, _FIRST_REACH, _SHRINK = 12, 30, 0.1, 0.6
#: Probabilities that a step changes a number, and a category.
_CHANGED, _CATEGORY_CHANGED = 0.5, 0.1
#: Below this the expected improvement is its asymptote.
_TAIL = -1e3


def most_promising(
    surrogate: Surrogate,
    encoding: Encoding,
    best: NDArray[np.float64],
    tried: NDArray[np.float64],
    draw: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the point whose expected improvement is the greatest that was found.

    Args:
        surrogate: what is known, with the trials that run imagined.
        encoding: of the study's space.
        best: the points of the best trials, one row each, which the search also begins from.
        tried: every point that was tried or is being tried; where there are few points in all, none is tried again
            before all were.
        draw: of the candidates.
    """
    if encoding.points is not None:
        left = _untried(encoding.points, tried)
        return left[np.argmax(_worth(surrogate, encoding, left))]
    overall = qmc.Sobol(best.shape[1], rng=draw).random(_OVERALL)
    about = np.repeat(best, _ABOUT_EACH, axis=0)
    reach = draw.choice(_REACHES, (len(about), 1))
    candidates = encoding.snapped(np.vstack([overall, _moved(about, reach, encoding, draw)]))
    worth = _worth(surrogate, encoding, candidates)
    chosen = _apart(candidates, worth)
    return _climbed(surrogate, encoding, candidates[chosen], worth[chosen], draw)


def log_improvement(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the expected improvement in deviations, ``log(pdf(z) + z cdf(z))``, exact also where that is 0.

    As Ament et al. 2023, "Unexpected Improvements to Expected Improvement".
    """
    near = np.maximum(z, -1.0)
    far = np.clip(z, _TAIL, -1.0)
    direct = np.log(np.exp(-np.square(near) / 2) / math.sqrt(2 * math.pi) + near * special.ndtr(near))
    ratio = np.log1p(far * math.sqrt(math.pi / 2) * special.erfcx(-far / math.sqrt(2)))
    tail = np.where(z > _TAIL, ratio, -2 * np.log(np.maximum(-z, 1.0)))
    return np.where(z > -1.0, direct, -np.square(np.minimum(z, 0.0)) / 2 - math.log(2 * math.pi) / 2 + tail)


def _worth(surrogate: Surrogate, encoding: Encoding, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the expected improvement of each point, summed over the ways that pending trials may end."""
    means, deviations = surrogate.predict(encoding.features(points))
    z = (surrogate.best() - means) / deviations[:, np.newaxis]
    return special.logsumexp(log_improvement(z), axis=1) + np.log(deviations)


def _untried(points: NDArray[np.float64], tried: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the points that were not tried, or all where all were."""
    seen = {row.tobytes() for row in tried}
    left = np.array([row.tobytes() not in seen for row in points])
    return points[left] if left.any() else points


def _moved(
    points: NDArray[np.float64], reach: NDArray[np.float64] | float, encoding: Encoding, draw: np.random.Generator
) -> NDArray[np.float64]:
    """Return each point a step away: some of its numbers moved, now and then a category drawn anew."""
    width = points.shape[1]
    some = draw.random(points.shape) < max(_CHANGED, 1.5 / width)
    moved = points + draw.standard_normal(points.shape) * reach * some
    anew = np.where(draw.random(points.shape) < _CATEGORY_CHANGED, draw.random(points.shape), points)
    return np.where(encoding.categorical, anew, moved)


def _apart(candidates: NDArray[np.float64], worth: NDArray[np.float64]) -> list[int]:
    """Return the best candidates that are no neighbours of a better one."""
    chosen: list[int] = []
    for index in np.argsort(-worth, kind="stable"):
        if all(np.abs(candidates[index] - candidates[other]).max() > _APART for other in chosen):
            chosen.append(int(index))
        if len(chosen) == _STARTS:
            break
    return chosen


def _climbed(
    surrogate: Surrogate,
    encoding: Encoding,
    points: NDArray[np.float64],
    worth: NDArray[np.float64],
    draw: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the best point that steps from these lead to."""
    count, width = points.shape
    rows = np.arange(count)
    reach = _FIRST_REACH
    for _ in range(_ROUNDS):
        steps = encoding.snapped(_moved(np.repeat(points, _STEPS, axis=0), reach, encoding, draw))
        found = _worth(surrogate, encoding, steps).reshape(count, _STEPS)
        steps = steps.reshape(count, _STEPS, width)
        most = found.argmax(axis=1)
        better = found[rows, most] > worth
        points = np.where(better[:, np.newaxis], steps[rows, most], points)
        worth = np.where(better, found[rows, most], worth)
        reach *= _SHRINK
    return points[worth.argmax()]
