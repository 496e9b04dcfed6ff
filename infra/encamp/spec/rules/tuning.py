"""V21: the rules H01-H11 of hyperparameter tuning."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from encamp.spec.rules.case import INPUT
from encamp.spec.tuning import Algorithm, HyperparameterSpec, ParameterScale, ParameterSpec, ParameterType

if TYPE_CHECKING:
    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

_AT: DataPath = (INPUT, "hyperparameters")
_MOST_VALUES = 1000
_NUMERIC = {ParameterType.DOUBLE, ParameterType.INTEGER}
_POSITIVE_SCALES = {ParameterScale.UNIT_LOG_SCALE, ParameterScale.UNIT_REVERSE_LOG_SCALE}


def check_tuning(case: Case) -> None:
    """H01-H11 over the study and each of its parameters."""
    study = case.input.hyperparameters
    if study is None:
        return
    _counts(case, study)
    if not study.params:
        case.problem("V21", (*_AT, "params"), "is missing: at least one parameter is tuned")
        return
    seen: set[str] = set()
    for index, parameter in enumerate(study.params):
        path = (*_AT, "params", index)
        _name(case, parameter, path, seen)
        _type(case, parameter, path)
        if parameter.type in _NUMERIC:
            _bounds(case, parameter, path)
        elif parameter.type is ParameterType.CATEGORICAL:
            _categories(case, parameter, path)
        elif parameter.type is ParameterType.DISCRETE:
            _discrete(case, parameter, path)
    if study.algorithm is Algorithm.GRID_SEARCH and any(p.type is ParameterType.DOUBLE for p in study.params):
        doubles = ", ".join(str(p.parameter_name) for p in study.params if p.type is ParameterType.DOUBLE)
        message = f"GRID_SEARCH takes no DOUBLE parameter, and {doubles} is one"
        case.problem("H09", (*_AT, "algorithm"), message, "use DISCRETE values, or RANDOM_SEARCH")


def _counts(case: Case, study: HyperparameterSpec) -> None:
    for name, least in (("max_trials", 1), ("max_parallel_trials", 1), ("max_failed_trials", 0)):
        value: int | None = getattr(study, name)
        if value is not None and value < least:
            case.problem("H11", (*_AT, name), f"{value} must be at least {least}")


def _name(case: Case, parameter: ParameterSpec, path: DataPath, seen: set[str]) -> None:
    name = parameter.parameter_name
    if not name:
        case.problem("H01", (*path, "parameter_name"), "is missing: each parameter has a name")
    elif name in seen:
        case.problem("H01", (*path, "parameter_name"), f"{name[:60]!r} names two parameters; names are unique")
    else:
        seen.add(name)


def _type(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    if parameter.type in {None, ParameterType.PARAMETER_TYPE_UNSPECIFIED}:
        case.problem("H02", (*path, "type"), "must be DOUBLE, INTEGER, CATEGORICAL or DISCRETE")


def _bounds(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    low, high = parameter.min_value, parameter.max_value
    for name, value in (("min_value", low), ("max_value", high)):
        if value is None:
            case.problem("H03", (*path, name), f"is missing: {parameter.type} needs minValue and maxValue")
        elif parameter.type is ParameterType.INTEGER and not value.is_integer():
            case.problem("H04", (*path, name), f"{value} must be a whole number for INTEGER")
    if low is not None and high is not None and low > high:
        case.problem("H05", (*path, "max_value"), f"{high} is below minValue, {low}", "swap the two")
    if parameter.scale_type in _POSITIVE_SCALES and low is not None and low <= 0:
        case.problem("H08", (*path, "min_value"), f"{low} must be above 0 for {parameter.scale_type}")
    if parameter.scale_type in {None, ParameterScale.NONE}:
        case.warn("H10", (*path, "scale_type"), f"a scale is advised for {parameter.type}", "such as UNIT_LINEAR_SCALE")
    for name in ("categorical_values", "discrete_values"):
        if getattr(parameter, name) is not None:
            case.warn("V21", (*path, name), f"is ignored for {parameter.type}")


def _categories(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    if not parameter.categorical_values:
        case.problem("H06", (*path, "categorical_values"), "is missing: CATEGORICAL needs its values")
    for name in ("min_value", "max_value"):
        if getattr(parameter, name) is not None:
            case.problem("H06", (*path, name), "a CATEGORICAL has no bounds", "remove it")
    if parameter.scale_type not in {None, ParameterScale.NONE}:
        case.problem("H06", (*path, "scale_type"), "a CATEGORICAL has no scale", "remove it")


def _discrete(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    values = parameter.discrete_values
    where = (*path, "discrete_values")
    if not values:
        case.problem("H07", where, "is missing: DISCRETE needs its values")
        return
    if len(values) > _MOST_VALUES:
        case.problem("H07", where, f"has {len(values)} values; at most {_MOST_VALUES}")
    if any(second <= first for first, second in pairwise(values)):
        case.problem("H07", where, "must be strictly increasing", "sort the values and drop doubles")
    if parameter.scale_type in _POSITIVE_SCALES and min(values) <= 0:
        case.problem("H08", where, f"must be above 0 for {parameter.scale_type}")
