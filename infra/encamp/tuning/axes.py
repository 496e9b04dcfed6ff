"""Axes of the charts of a study: where a value lies between 0 and 1, and which values are written beside the axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.spec.tuning import ParameterScale, ParameterType
from encamp.tuning.model import text_of
from encamp.tuning.space import unit_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.study import ParameterPlan
    from encamp.tuning.model import Value

#: Approximate number of values beside an axis.
_TICKS = 6
_LONGEST_TEXT = 18
_STEPS = (1.0, 2.0, 5.0, 10.0)
_NEARLY_NOTHING = 1e-9
_NEARLY_ONE = 1 + _NEARLY_NOTHING
_TINY = 1e-300


@dataclass(frozen=True)
class Tick:
    """A value written beside an axis, at ``place`` from 0 to 1."""

    place: float
    text: str


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        place: from a value to its place from 0 to 1; None for one that has none, such as that of an earlier job whose
            study had other bounds.
        words: what is written beside it may be cut short.
    """

    title: str
    ticks: tuple[Tick, ...]
    place: Callable[[Value], float | None]
    words: bool = False


def parameter_axis(parameter: ParameterPlan) -> Axis:
    """Return the axis of a tuned parameter, stretched as the search stretches it."""

    def place(value: Value) -> float | None:
        try:
            return unit_of(parameter, value)
        except ValueError:
            return None

    if parameter.low is None or parameter.high is None:
        every = math.ceil(len(parameter.values) / (2 * _TICKS))
        ticks = [Tick(unit_of(parameter, value), short(text_of(value))) for value in parameter.values[::every]]
        return Axis(parameter.name, tuple(ticks), place, words=True)
    ticks_of = _log_ticks if parameter.scale is ParameterScale.UNIT_LOG_SCALE else _even_ticks
    values = ticks_of(parameter.low, parameter.high, whole=parameter.type is ParameterType.INTEGER)
    return Axis(parameter.name, tuple(Tick(unit_of(parameter, one), number_text(one)) for one in values), place)


def number_axis(title: str, low: float, high: float, *, whole: bool = False) -> Axis:
    """Return a linear axis of numbers, ``low`` below ``high``; those beyond an end are at that end."""

    def place(value: Value) -> float | None:
        if isinstance(value, str) or not math.isfinite(value):
            return None
        # The difference of the widest ranges overflows a double.
        return min(max((value / 2 - low / 2) / (high / 2 - low / 2), 0.0), 1.0)

    ticks = [(place(one), one) for one in _even_ticks(low, high, whole=whole)]
    return Axis(title, tuple(Tick(at, number_text(one)) for at, one in ticks if at is not None), place)


def short(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Return a text cut so that it has room."""
    return text if len(text) <= longest else f"{text[: max(longest - 1, 1)]}…"


def number_text(value: float) -> str:
    """Return a number as people read it, to six digits."""
    return f"{value:.6g}"


def _even_ticks(low: float, high: float, *, whole: bool) -> list[float]:
    """Round numbers at even distances from one end to the other."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / _TICKS)) if _TINY < span < math.inf else 0.0
    if power == 0.0:
        return [low, high] if low < high else [low]
    steps = (power * factor for factor in _STEPS if power * factor * _TICKS * _NEARLY_ONE >= span)
    step = max(next(steps), 1.0 if whole else 0.0)
    first, last = math.ceil(low / step - _NEARLY_NOTHING), math.floor(high / step + _NEARLY_NOTHING)
    return [min(max(index * step, low), high) for index in range(first, last + 1)] or [low, high]


def _log_ticks(low: float, high: float, *, whole: bool) -> list[float]:
    """Return powers of ten from one end to the other, of many some.

    Round numbers where hardly any lies between them.
    """
    first, last = math.ceil(math.log10(low) - _NEARLY_NOTHING), math.floor(math.log10(high) + _NEARLY_NOTHING)
    if last - first < 1:
        return _even_ticks(low, high, whole=whole)
    every = math.ceil((last - first + 1) / _TICKS)
    return [min(max(10.0**power, low), high) for power in range(first, last + 1, every)]
