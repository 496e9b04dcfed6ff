"""A tuning study, decided: what is searched for, over which space, and how many trials may be tried (section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.spec.tuning import Algorithm, Goal, ParameterScale, ParameterType

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        parameters: at least one, in the order of the job file.
        algorithm: unspecified is Bayesian optimisation.
        max_trials: trials of this job, those of a job that it resumes not counted.
        max_parallel_trials: at a time, never more than ``max_trials``.
        max_failed_trials: so many failed trials end the job as failed; 0 leaves it to ``run.study``.
        early_stopping: whether hopeless trials are stopped.
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
        """As plain data, for the cluster and the record."""
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
        """The study that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is none.
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
