"""The unit interval and a parameter's values (section 7.3 of the job model)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.plan.study import ParameterPlan
from encamp.spec.tuning import ParameterScale, ParameterType
from encamp.tuning.space import level, levels, neighbour, point_of, unit_of, value_at

if TYPE_CHECKING:
    from encamp.tuning.model import Value

LINEAR, LOG = ParameterScale.UNIT_LINEAR_SCALE, ParameterScale.UNIT_LOG_SCALE
REVERSE = ParameterScale.UNIT_REVERSE_LOG_SCALE
UNITS = st.floats(0, 1)


def double(low: float, high: float, scale: ParameterScale = LINEAR) -> ParameterPlan:
    return ParameterPlan("x", ParameterType.DOUBLE, low, high, scale=scale)


def integer(low: int, high: int, scale: ParameterScale = LINEAR) -> ParameterPlan:
    return ParameterPlan("x", ParameterType.INTEGER, low, high, scale=scale)


@pytest.mark.parametrize(
    ("scale", "middle"), [(LINEAR, 50.5), (LOG, 10.0), (REVERSE, 91.0)], ids=["linear", "log", "reverse log"]
)
def test_a_scale_is_what_its_formula_says(scale: ParameterScale, middle: float) -> None:
    parameter = double(1, 100, scale)
    assert [value_at(parameter, unit) for unit in (0, 0.5, 1)] == pytest.approx([1, middle, 100])


@given(unit=UNITS, scale=st.sampled_from([LINEAR, LOG, REVERSE]))
def test_a_value_stands_where_it_came_from(unit: float, scale: ParameterScale) -> None:
    parameter = double(1e-4, 10, scale)
    value = value_at(parameter, unit)
    assert 1e-4 <= float(value) <= 10
    again = float(value_at(parameter, unit_of(parameter, value)))
    assert math.isclose(again, float(value), rel_tol=1e-9, abs_tol=1e-9)


@given(bounds=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2), unit=UNITS)
def test_no_bounds_are_too_wide(bounds: list[float], unit: float) -> None:
    parameter = double(min(bounds), max(bounds))
    value = value_at(parameter, unit)
    assert min(bounds) <= float(value) <= max(bounds)
    assert 0 <= unit_of(parameter, value) <= 1


@given(low=st.floats(1e-300, 1e308), factor=st.floats(1, 1e300), unit=UNITS, scale=st.sampled_from([LOG, REVERSE]))
def test_no_positive_bounds_are_too_wide_for_a_log(
    low: float, factor: float, unit: float, scale: ParameterScale
) -> None:
    parameter = double(low, min(low * factor, 1.7e308), scale)
    value = value_at(parameter, unit)
    assert low <= float(value) <= (parameter.high or 0)
    assert 0 <= unit_of(parameter, value) <= 1


@given(
    low=st.integers(1, 50),
    more=st.integers(0, 40),
    scale=st.sampled_from([LINEAR, LOG, REVERSE]),
    pick=st.integers(0, 1000),
)
def test_every_whole_number_stands_for_itself(low: int, more: int, scale: ParameterScale, pick: int) -> None:
    parameter = integer(low, low + more, scale)
    value = level(parameter, pick % (more + 1))
    assert levels(parameter) == more + 1
    assert value_at(parameter, unit_of(parameter, value)) == value


def test_the_first_and_the_last_whole_number_have_a_whole_share() -> None:
    parameter = integer(1, 4)
    values = [value_at(parameter, (index + 0.5) / 1000) for index in range(1000)]
    assert [values.count(number) for number in (1, 2, 3, 4)] == [250, 250, 250, 250]


@pytest.mark.parametrize("values", [("a", "b", "c"), (16.0, 32.0, 256.0)])
def test_each_of_given_values_has_an_equal_share(values: tuple[str, ...] | tuple[float, ...]) -> None:
    kind = ParameterType.CATEGORICAL if isinstance(values[0], str) else ParameterType.DISCRETE
    parameter = ParameterPlan("x", kind, values=values)
    drawn = [value_at(parameter, index / 300) for index in range(300)]
    assert [drawn.count(value) for value in values] == [100, 100, 100]
    assert value_at(parameter, 1.0) == values[-1]
    assert [value_at(parameter, unit_of(parameter, value)) for value in values] == list(values)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (double(0, 1), 1.5),
        (double(0, 1), "0.5"),
        (double(0, 1), math.nan),
        (integer(1, 4), 9),
        (ParameterPlan("x", ParameterType.CATEGORICAL, values=("a",)), "b"),
        (ParameterPlan("x", ParameterType.DISCRETE, values=(1.0,)), 2.0),
    ],
)
def test_a_value_of_another_space_is_refused(parameter: ParameterPlan, value: Value) -> None:
    with pytest.raises(ValueError, match="is no value of parameter 'x'"):
        unit_of(parameter, value)
    assert point_of([parameter], {"x": value}) is None


def test_neighbours_stop_at_the_ends() -> None:
    batch = ParameterPlan("x", ParameterType.DISCRETE, values=(16.0, 32.0, 64.0))
    assert [neighbour(batch, value, up=True) for value in batch.values] == [32.0, 64.0, 64.0]
    assert [neighbour(integer(1, 3), value, up=False) for value in (1, 2, 3)] == [1, 1, 2]
    assert neighbour(double(0, 1), 0.5, up=True) == 0.5
