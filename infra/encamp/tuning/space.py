"""The space that a study searches: from the unit interval to a parameter's values and back (spec 7.3).

Every method searches the unit cube. An INTEGER has bounds half a step wider before it is rounded, so that its first
and its last value are as likely as the others; of CATEGORICAL and DISCRETE each value has an equal share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from encamp.spec.tuning import ParameterScale, ParameterType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.study import ParameterPlan
    from encamp.tuning.model import Value


def levels(parameter: ParameterPlan) -> int | None:
    """Return the number of a parameter's values, None for a DOUBLE whose bounds differ."""
    if parameter.values:
        return len(parameter.values)
    low, high = _bounds(parameter)
    if parameter.type is ParameterType.INTEGER:
        return int(high) - int(low) + 1
    return 1 if low == high else None


def level(parameter: ParameterPlan, index: int) -> Value:
    """Return value number ``index``, from 0, of a parameter that has a number of them."""
    if parameter.values:
        return parameter.values[index]
    low, _ = _bounds(parameter)
    return int(low) + index if parameter.type is ParameterType.INTEGER else low


def value_at(parameter: ParameterPlan, unit: float) -> Value:
    """Return the value at a point of the unit interval."""
    if parameter.values:
        return parameter.values[min(int(unit * len(parameter.values)), len(parameter.values) - 1)]
    low, high = _bounds(parameter)
    if parameter.type is ParameterType.INTEGER:
        rounded = math.floor(_stretched(parameter.scale, low - 0.5, high + 0.5, unit) + 0.5)
        return min(max(rounded, int(low)), int(high))
    return min(max(_stretched(parameter.scale, low, high, unit), low), high)


def unit_of(parameter: ParameterPlan, value: Value) -> float:
    """Return the point of the unit interval that a value stands at, the middle of its share where it has one.

    Raises:
        ValueError: the parameter has no such value.
    """
    if parameter.values:
        if value not in parameter.values:
            raise _outside(parameter, value)
        return (list(parameter.values).index(value) + 0.5) / len(parameter.values)
    low, high = _bounds(parameter)
    if isinstance(value, str) or not low <= value <= high:
        raise _outside(parameter, value)
    if low == high:
        return 0.5
    if parameter.type is ParameterType.INTEGER:
        low, high = low - 0.5, high + 0.5
    return min(max(_shrunk(parameter.scale, low, high, value), 0.0), 1.0)


def neighbour(parameter: ParameterPlan, value: Value, *, up: bool) -> Value:
    """Return the next value up or down of a parameter that has a number of them.

    The value itself at the end of them.
    """
    number = levels(parameter)
    if number is None or isinstance(value, str):
        return value
    index = parameter.values.index(value) if parameter.values else int(value) - int(level(parameter, 0))
    return level(parameter, min(max(index + (1 if up else -1), 0), number - 1))


def values_at(parameters: Sequence[ParameterPlan], point: Sequence[float]) -> dict[str, Value]:
    """Return the values at a point of the unit cube, in the order of the job file."""
    return {one.name: value_at(one, float(unit)) for one, unit in zip(parameters, point, strict=True)}


def point_of(parameters: Sequence[ParameterPlan], values: Mapping[str, Value]) -> list[float] | None:
    """Return the point of the unit cube that values stand at.

    None if they are of another space: a study that is resumed may have been given other bounds.
    """
    try:
        return [unit_of(one, values[one.name]) for one in parameters]
    except (KeyError, ValueError):
        return None


def _bounds(parameter: ParameterPlan) -> tuple[float, float]:
    if parameter.low is None or parameter.high is None:
        raise ValueError(f"parameter {parameter.name!r} of type {parameter.type} has neither bounds nor values")
    return float(parameter.low), float(parameter.high)


def _stretched(scale: ParameterScale, low: float, high: float, unit: float) -> float:
    if scale is ParameterScale.UNIT_LOG_SCALE:
        return math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    if scale is ParameterScale.UNIT_REVERSE_LOG_SCALE:
        return high - math.exp(math.log(high) - unit * (math.log(high) - math.log(low))) + low
    return low * (1 - unit) + high * unit


def _shrunk(scale: ParameterScale, low: float, high: float, value: float) -> float:
    if scale is ParameterScale.UNIT_LINEAR_SCALE or math.log(low) == math.log(high):
        width = high / 2 - low / 2
        return (value / 2 - low / 2) / width if width > 0 else 0.5
    if scale is ParameterScale.UNIT_LOG_SCALE:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    mirrored = min(max(high - value + low, low), high)
    return (math.log(high) - math.log(mirrored)) / (math.log(high) - math.log(low))


def _outside(parameter: ParameterPlan, value: Value) -> ValueError:
    return ValueError(f"{value!r} is no value of parameter {parameter.name!r}")
