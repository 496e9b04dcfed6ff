"""A tuning study, decided: its goal, its search space and the number of trials (section 7)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.spec.tuning import Algorithm, Goal, ParameterScale, ParameterType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.tuning import HyperparameterSpec, ParameterSpec

#: Variables that tell replicas their trial: its number, the metric's file and tag, and the trial that it resumes from.
TRIAL_VARIABLE = "CLOUD_ML_TRIAL_ID"
METRIC_FILE_VARIABLE = "CLOUD_ML_HP_METRIC_FILE"
METRIC_TAG_VARIABLE = "CLOUD_ML_HP_METRIC_TAG"
PARENT_VARIABLE = "ENCAMP_PARENT_TRIAL_ID"
#: File of a replica's metric: in the folder of its own that every replica has.
METRIC_FILE = "/encamp-run/hypertune/output.metrics"
#: Seeds of every library of random numbers are below.
_SEEDS = 2**32


@dataclass(frozen=True)
class ParameterPlan:
    """One tuned parameter.

    Attributes:
        low: smallest value of a DOUBLE or INTEGER, None for the others.
        high: largest one.
        values: of a CATEGORICAL its texts, of a DISCRETE its numbers in rising order, empty for the others.
        scale: how the space between the bounds is stretched; linear where the job file says nothing.
    """

    name: str
    type: ParameterType
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] | tuple[float, ...] = ()
    scale: ParameterScale = ParameterScale.UNIT_LINEAR_SCALE


@dataclass(frozen=True)
class StudyPlan:
    """A study.

    Attributes:
        goal: MAXIMIZE or MINIMIZE.
        metric: tag of the metric.
        parameters: at least one, in the order of the job file, in which a trial's arguments come too.
        algorithm: unspecified is Bayesian optimisation.
        max_trials: trials of this job, those of a job that it resumes not counted.
        max_parallel_trials: at a time, never more than ``max_trials``.
        max_failed_trials: so many failed trials end the job as failed; 0 leaves it to ``run.studies``.
        early_stopping: whether unpromising trials are stopped.
        resumes: id of the job whose study goes on, None for a new one.
        seed: of every choice; the same job id makes the same choices.
    """

    goal: Goal
    metric: str
    parameters: tuple[ParameterPlan, ...]
    algorithm: Algorithm
    max_trials: int
    max_parallel_trials: int
    max_failed_trials: int
    early_stopping: bool
    resumes: str | None
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for the cluster and the record."""
        return {
            "goal": str(self.goal),
            "metric": self.metric,
            "parameters": [
                {
                    "name": one.name,
                    "type": str(one.type),
                    "low": one.low,
                    "high": one.high,
                    "values": list(one.values),
                    "scale": str(one.scale),
                }
                for one in self.parameters
            ],
            "algorithm": str(self.algorithm),
            "maxTrials": self.max_trials,
            "maxParallelTrials": self.max_parallel_trials,
            "maxFailedTrials": self.max_failed_trials,
            "earlyStopping": self.early_stopping,
            "resumes": self.resumes,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StudyPlan:
        """Return the study that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is malformed.
        """
        return cls(
            goal=Goal(data["goal"]),
            metric=str(data["metric"]),
            parameters=tuple(
                ParameterPlan(
                    name=str(one["name"]),
                    type=ParameterType(one["type"]),
                    low=one["low"],
                    high=one["high"],
                    values=tuple(one["values"]),
                    scale=ParameterScale(one["scale"]),
                )
                for one in data["parameters"]
            ),
            algorithm=Algorithm(data["algorithm"]),
            max_trials=int(data["maxTrials"]),
            max_parallel_trials=int(data["maxParallelTrials"]),
            max_failed_trials=int(data["maxFailedTrials"]),
            early_stopping=bool(data["earlyStopping"]),
            resumes=data["resumes"],
            seed=int(data["seed"]),
        )

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> StudyPlan | None:
        """Return the same, or None if a required part is missing or of the wrong type."""
        try:
            return cls.from_json(data)
        except (KeyError, TypeError, ValueError):
            return None


def study(job: TrainingJobSpec) -> StudyPlan | None:
    """Return the study of a job that keeps every rule and has an id; None if it tunes nothing."""
    given = job.training_input.hyperparameters
    if given is None:
        return None
    return StudyPlan(
        goal=Goal.MINIMIZE if given.goal is Goal.MINIMIZE else Goal.MAXIMIZE,
        metric=given.or_default("hyperparameter_metric_tag"),
        parameters=tuple(_parameter(one) for one in given.params or ()),
        algorithm=given.or_default("algorithm"),
        max_trials=given.or_default("max_trials"),
        max_parallel_trials=parallel_trials(given),
        max_failed_trials=given.or_default("max_failed_trials"),
        early_stopping=bool(given.enable_trial_early_stopping),
        resumes=given.resume_previous_job_id,
        seed=int.from_bytes(hashlib.sha256((job.job_id or "").encode()).digest()) % _SEEDS,
    )


def study_variables(planned: StudyPlan | None) -> Mapping[str, str]:
    """Return variables that all replicas of a study have, whichever trial they are of."""
    return {} if planned is None else {METRIC_FILE_VARIABLE: METRIC_FILE, METRIC_TAG_VARIABLE: planned.metric}


def trial_variables(number: int, parent: int | None = None) -> Mapping[str, str]:
    """Return variables that say which trial a replica is of, and from which it goes on in a population."""
    own = {} if parent is None else {PARENT_VARIABLE: str(parent)}
    return {TRIAL_VARIABLE: str(number), **own}


def trial_arguments(arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of a trial as its trainer reads them, one word each, in the order that they are given in."""
    return tuple(f"--{name}={value}" for name, value in arguments.items())


def parallel_trials(given: HyperparameterSpec | None) -> int:
    """Return the number of parallel trials, and so of copies of a job's replicas; 1 without tuning."""
    return 1 if given is None else min(given.or_default("max_parallel_trials"), given.or_default("max_trials"))


def _parameter(given: ParameterSpec) -> ParameterPlan:
    bounded = given.type in {ParameterType.DOUBLE, ParameterType.INTEGER}
    values: dict[ParameterType | None, tuple[str, ...] | tuple[float, ...]] = {
        ParameterType.CATEGORICAL: tuple(dict.fromkeys(given.categorical_values or ())),
        ParameterType.DISCRETE: tuple(given.discrete_values or ()),
    }
    plain = given.scale_type in {None, ParameterScale.NONE} or given.type is ParameterType.CATEGORICAL
    return ParameterPlan(
        name=given.parameter_name or "",
        type=given.type or ParameterType.PARAMETER_TYPE_UNSPECIFIED,
        low=given.min_value if bounded else None,
        high=given.max_value if bounded else None,
        values=values.get(given.type, ()),
        scale=ParameterScale.UNIT_LINEAR_SCALE if plain or given.scale_type is None else given.scale_type,
    )
