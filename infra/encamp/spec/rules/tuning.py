"""V21: the rules H01-H11 of hyperparameter tuning."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from encamp.spec.encamp import Provisioning
from encamp.spec.job_id import is_job_id
from encamp.spec.rules.case import INPUT
from encamp.spec.tuning import Algorithm, HyperparameterSpec, ParameterScale, ParameterSpec, ParameterType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

_AT: DataPath = (INPUT, "hyperparameters")
_MOST_VALUES = 1000
_NUMERIC = {ParameterType.DOUBLE, ParameterType.INTEGER}
#: An int32.
_MOST_TRIALS = 2**31 - 1
#: Whole numbers beyond this are not all exact as doubles.
_LARGEST_INTEGER = 2.0**53
_LONGEST_NAME = 128
#: Fields of a metric's record beside the metric (section 7.4).
_OF_RECORDS = frozenset({"checkpoint_path", "global_step", "timestamp", "trial"})
#: Names of the flag that passes the job dir to a trainer, as trainers of different libraries spell it.
_JOB_DIR = frozenset({"job-dir", "job_dir"})
_POSITIVE_SCALES = {ParameterScale.UNIT_LOG_SCALE, ParameterScale.UNIT_REVERSE_LOG_SCALE}


def check_tuning(case: Case) -> None:
    """Check H01-H11 on the study and each of its parameters."""
    study = case.input.hyperparameters
    if study is None:
        return
    _counts(case, study)
    _study(case, study)
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
    _set_twice(case, seen)
    if study.algorithm is Algorithm.GRID_SEARCH:
        _grid(case, study, study.params)


def _counts(case: Case, study: HyperparameterSpec) -> None:
    for name, least in (("max_trials", 1), ("max_parallel_trials", 1), ("max_failed_trials", 0)):
        value: int | None = getattr(study, name)
        if value is not None and value < least:
            case.problem("H11", (*_AT, name), f"{value} must be at least {least}")
        elif value is not None and value > _MOST_TRIALS:
            case.problem("H11", (*_AT, name), f"{value} must be at most {_MOST_TRIALS}")
    parallel, trials = study.max_parallel_trials, study.max_trials or 1
    if parallel is not None and parallel > trials >= 1:
        case.warn("H11", (*_AT, "max_parallel_trials"), f"{parallel} are more than there are trials, {trials}")


def _grid(case: Case, study: HyperparameterSpec, params: Sequence[ParameterSpec]) -> None:
    doubles = ", ".join(str(p.parameter_name) for p in params if p.type is ParameterType.DOUBLE)
    if doubles:
        message = f"GRID_SEARCH takes no DOUBLE parameter, and {doubles} is one"
        case.problem("H09", (*_AT, "algorithm"), message, "use DISCRETE values, or RANDOM_SEARCH")
        return
    points, trials = math.prod(map(_points, params)), study.max_trials or 1
    if 0 < points < trials:
        message = f"the grid has {points} points, so that many of the {trials} trials are tried"
        case.warn("H09", (*_AT, "max_trials"), message)


def _points(parameter: ParameterSpec) -> int:
    low, high = parameter.min_value, parameter.max_value
    if parameter.type is ParameterType.INTEGER and low is not None and high is not None:
        return max(0, int(high) - int(low) + 1)
    return len(set(parameter.categorical_values or parameter.discrete_values or ()))


def _study(case: Case, study: HyperparameterSpec) -> None:
    """Check the study as a whole: its metric, the study it resumes, and machines that it cannot have."""
    if study.hyperparameter_metric_tag in _OF_RECORDS:
        message = f"{study.hyperparameter_metric_tag} is a field that every record of a metric has"
        case.problem("V21", (*_AT, "hyperparameter_metric_tag"), message, "name the metric, such as accuracy")
    previous = study.resume_previous_job_id
    where = (*_AT, "resume_previous_job_id")
    if previous is not None and not is_job_id(previous):
        case.problem("V21", where, f"{previous[:60]!r} is no job id", "write the id of an earlier tuning job")
    elif previous is not None and previous == case.job.job_id:
        case.problem("V21", where, f"{previous[:60]} is this job itself", "give this job another id by --job-id")
    if case.job.encamp.provisioning is Provisioning.QUEUED:
        message = "QUEUED gives machines for one run; trials take turns on the same ones"
        case.problem("E23", ("encamp", "provisioning"), message, "use FLEX_START, SPOT or ON_DEMAND")


def _name(case: Case, parameter: ParameterSpec, path: DataPath, seen: set[str]) -> None:
    name, where = parameter.parameter_name, (*path, "parameter_name")
    if not name:
        case.problem("H01", where, "is missing: each parameter has a name")
        return
    shown = repr(name[:60])
    if name in seen:
        case.problem("H01", where, f"{shown} names two parameters; names are unique")
    elif len(name) > _LONGEST_NAME:
        case.problem("H01", where, f"{shown} has {len(name)} characters; at most {_LONGEST_NAME}")
    elif name.startswith("-") or not name.isprintable() or any(letter in "= " for letter in name):
        hint = "a name without blanks, = and dashes before it: the trainer is given --NAME=VALUE"
        case.problem("H01", where, f"{shown} cannot be a flag", hint)
    elif name in _JOB_DIR and (case.input.job_dir is not None or case.job.encamp.storage is not None):
        case.problem("H01", where, f"{shown} is the flag of the job dir", "choose another name")
    seen.add(name)


def _set_twice(case: Case, names: set[str]) -> None:
    for index, word in enumerate(case.input.args or ()):
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in names:
            message = f"--{name[:60]} is tuned too; most parsers take the later one, the trial's"
            case.warn("V21", (INPUT, "args", index), message, "remove it from args")


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
        elif parameter.type is ParameterType.INTEGER and abs(value) > _LARGEST_INTEGER:
            message = f"{value} is no exact whole number: those of files are exact to {_LARGEST_INTEGER:.0f}"
            case.problem("H04", (*path, name), message)
    if low is not None and high is not None and low > high:
        case.problem("H05", (*path, "max_value"), f"{high} is below minValue, {low}", "swap the two")
    elif low is not None and high is not None and not math.isfinite(high - low):
        case.problem("H05", (*path, "max_value"), f"is too far from minValue, {low}: no double tells how far")
    if parameter.scale_type in _POSITIVE_SCALES and low is not None and low <= 0:
        case.problem("H08", (*path, "min_value"), f"{low} must be above 0 for {parameter.scale_type}")
    if parameter.scale_type in {None, ParameterScale.NONE}:
        case.warn("H10", (*path, "scale_type"), f"a scale is advised for {parameter.type}", "such as UNIT_LINEAR_SCALE")
    _ignored(case, parameter, path, "categorical_values", "discrete_values")


def _ignored(case: Case, parameter: ParameterSpec, path: DataPath, *names: str) -> None:
    for name in names:
        if getattr(parameter, name) is not None:
            case.warn("V21", (*path, name), f"is ignored for {parameter.type}")


def _categories(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    values = parameter.categorical_values
    if not values:
        case.problem("H06", (*path, "categorical_values"), "is missing: CATEGORICAL needs its values")
    elif len(set(values)) < len(values):
        case.warn("H06", (*path, "categorical_values"), "has values twice; each counts once", "drop doubles")
    _ignored(case, parameter, path, "discrete_values")
    for name in ("min_value", "max_value"):
        if getattr(parameter, name) is not None:
            case.problem("H06", (*path, name), "a CATEGORICAL has no bounds", "remove it")
    if parameter.scale_type not in {None, ParameterScale.NONE}:
        case.problem("H06", (*path, "scale_type"), "a CATEGORICAL has no scale", "remove it")


def _discrete(case: Case, parameter: ParameterSpec, path: DataPath) -> None:
    values = parameter.discrete_values
    _ignored(case, parameter, path, "min_value", "max_value", "categorical_values")
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
