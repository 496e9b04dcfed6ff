"""Points of the unit cube as a Gaussian process sees them, and which of them are values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from encamp.spec.tuning import ParameterType
from encamp.tuning.space import level, levels, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from encamp.plan.study import ParameterPlan

#: More values lie so close that the space between them is of no account.
_MANY_LEVELS = 1000
#: Number of points in all that can be looked at one by one.
_MANY_POINTS = 1000
#: More categories than that share so many features.
_MOST_FEATURES = 12


class Encoding:
    """Rows of the unit cube, one column a parameter, and their features.

    A number is one feature, its place on the parameter's scale. A category is a corner of a simplex, so that every two
    are equally far apart; of very many, a direction of its own, so that they are nearly so.

    Attributes:
        points: every point there is where they are few, one a row; None if they are many.
    """

    def __init__(self, parameters: Sequence[ParameterPlan]) -> None:
        self._places = [_places(one) for one in parameters]
        self._corners = [_corners(one) for one in parameters]
        self.categorical = np.array([one.type is ParameterType.CATEGORICAL for one in parameters])
        self.points = self._every_point()

    def snapped(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each point moved to the nearest one that stands for values."""
        found = np.clip(points, 0.0, 1.0)
        for column, places in enumerate(self._places):
            if places is not None:
                found[:, column] = places[np.searchsorted((places[1:] + places[:-1]) / 2, found[:, column])]
        return found

    def features(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features of snapped points, one row each."""
        columns = [
            points[:, [column]] if corners is None else corners[(points[:, column] * len(corners)).astype(int)]
            for column, corners in enumerate(self._corners)
        ]
        return np.hstack(columns)

    def _every_point(self) -> NDArray[np.float64] | None:
        places = [one for one in self._places if one is not None]
        if len(places) < len(self._places) or math.prod(len(one) for one in places) > _MANY_POINTS:
            return None
        return np.stack([one.ravel() for one in np.meshgrid(*places, indexing="ij")], axis=1)


def _places(parameter: ParameterPlan) -> NDArray[np.float64] | None:
    """Return the points of a parameter's values on the unit interval; None if it is continuous, or nearly."""
    number = levels(parameter)
    if number is None or (number > _MANY_LEVELS and not parameter.values):
        return None
    return np.array([unit_of(parameter, level(parameter, index)) for index in range(number)])


def _corners(parameter: ParameterPlan) -> NDArray[np.float64] | None:
    """Return the features of each category, one row a category, two of them one apart; None of a number."""
    if parameter.type is not ParameterType.CATEGORICAL:
        return None
    number = len(parameter.values)
    if number <= _MOST_FEATURES:
        return np.eye(number) / math.sqrt(2)
    drawn = np.random.default_rng(number).standard_normal((number, _MOST_FEATURES))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) / math.sqrt(2)
