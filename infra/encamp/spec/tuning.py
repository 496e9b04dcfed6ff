"""Hyperparameter tuning as written: HyperparameterSpec and ParameterSpec."""

from __future__ import annotations

from enum import StrEnum

from encamp.spec.fields import CommandFlag, Double, Flag, FlagGroup, Int32, Text, Written, field


class Goal(StrEnum):
    """Whether larger or smaller metrics are better."""

    GOAL_TYPE_UNSPECIFIED = "GOAL_TYPE_UNSPECIFIED"
    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


class Algorithm(StrEnum):
    """The search algorithm; unspecified is Bayesian optimisation."""

    ALGORITHM_UNSPECIFIED = "ALGORITHM_UNSPECIFIED"
    GRID_SEARCH = "GRID_SEARCH"
    RANDOM_SEARCH = "RANDOM_SEARCH"
    POPULATION_BASED_TRAINING = "POPULATION_BASED_TRAINING"


class ParameterType(StrEnum):
    """The type of a tuned parameter."""

    PARAMETER_TYPE_UNSPECIFIED = "PARAMETER_TYPE_UNSPECIFIED"
    DOUBLE = "DOUBLE"
    INTEGER = "INTEGER"
    CATEGORICAL = "CATEGORICAL"
    DISCRETE = "DISCRETE"


class ParameterScale(StrEnum):
    """The scale between two bounds on which the search moves."""

    NONE = "NONE"
    UNIT_LINEAR_SCALE = "UNIT_LINEAR_SCALE"
    UNIT_LOG_SCALE = "UNIT_LOG_SCALE"
    UNIT_REVERSE_LOG_SCALE = "UNIT_REVERSE_LOG_SCALE"


class ParameterSpec(Written):
    """One tuned parameter."""

    parameter_name: Text | None = field(rule="H01")
    """Name of the parameter; the trainer receives ``--<name>=<value>``."""
    type: ParameterType | None = field(rule="H02")
    """DOUBLE, INTEGER, CATEGORICAL or DISCRETE."""
    min_value: Double | None = field(rule="H03")
    """Smallest value of a DOUBLE or INTEGER."""
    max_value: Double | None = field(rule="H03")
    """Largest value of a DOUBLE or INTEGER."""
    categorical_values: list[Text] | None = field(rule="H06")
    """Values of a CATEGORICAL."""
    discrete_values: list[Double] | None = field(rule="H07")
    """Values of a DISCRETE, strictly increasing, at most 1000."""
    scale_type: ParameterScale | None = field(ParameterScale.NONE)
    """Scale of a DOUBLE or INTEGER."""


class HyperparameterSpec(Written):
    """A tuning study over the job."""

    goal: Goal | None = field(Goal.MAXIMIZE)
    """MAXIMIZE (the default) or MINIMIZE."""
    params: list[ParameterSpec] | None = None
    """The tuned parameters, at least one."""
    max_trials: Int32 | None = field(1, rule="H11", flag=CommandFlag("N", FlagGroup.OPTIONS))
    """Trials attempted in all; 1 when absent."""
    max_parallel_trials: Int32 | None = field(1, rule="H11")
    """Trials at a time; 1 when absent."""
    max_failed_trials: Int32 | None = field(0, rule="H11")
    """Failed trials that end the study; 0 leaves it to the service."""
    hyperparameter_metric_tag: Text | None = field("training/hptuning/metric")
    """Summary tag of the metric; ``training/hptuning/metric`` when absent."""
    algorithm: Algorithm | None = field(Algorithm.ALGORITHM_UNSPECIFIED)
    """Search algorithm; Bayesian when absent."""
    enable_trial_early_stopping: Flag | None = field(False)
    """Whether unpromising trials are stopped early."""
    resume_previous_job_id: Text | None = field(flag=CommandFlag("ID", FlagGroup.OPTIONS))
    """Id of an earlier tuning job whose study is resumed."""
