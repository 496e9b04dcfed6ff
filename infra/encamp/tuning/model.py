"""Data of a study's trials: the input of a search and of a report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.study import StudyPlan

#: DOUBLE and DISCRETE are floats, INTEGER is an int, CATEGORICAL a text.
Value = float | int | str

#: Every whole float below has one text.
_EXACT = 2.0**53


class TrialState(StrEnum):
    """The state of a trial, in the words of the Job resource (spec 7.6)."""

    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        """Whether nothing comes after it."""
        return self in {TrialState.SUCCEEDED, TrialState.FAILED, TrialState.CANCELLED}


@dataclass(frozen=True)
class Measurement:
    """One report of the metric: the training step, the value, and when it was made (seconds since the epoch)."""

    step: int
    value: float
    at: float

    def to_json(self) -> list[float]:
        """Return plain data, short because a trial may have thousands."""
        return [self.step, self.value, self.at]

    @classmethod
    def from_json(cls, data: Sequence[float]) -> Measurement:
        """Return the measurement that ``to_json`` wrote."""
        step, value, at = data
        return cls(int(step), float(value), float(at))


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        number: from 1; a study that is resumed counts on.
        measurements: in the order of their coming.
        final: the one that counts, or None.
        stopped_early: it was stopped because it was unpromising; such a trial has SUCCEEDED, with what it had reached.
        parent: number of the trial whose checkpoint it starts from, None but in a population.
        message: why it failed, empty if it did not.
        job_id: of the job that ran it.
    """

    number: int
    values: Mapping[str, Value]
    state: TrialState
    measurements: tuple[Measurement, ...] = ()
    final: Measurement | None = None
    stopped_early: bool = False
    parent: int | None = None
    message: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    job_id: str = ""

    @property
    def arguments(self) -> Mapping[str, str]:
        """The values as the trainer and the Job resource have them."""
        return {name: text_of(value) for name, value in self.values.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for the journal and the kept results."""
        return {
            "number": self.number,
            "values": dict(self.values),
            "state": str(self.state),
            "measurements": [one.to_json() for one in self.measurements],
            "final": self.final.to_json() if self.final is not None else None,
            "stoppedEarly": self.stopped_early,
            "parent": self.parent,
            "message": self.message,
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
            "jobId": self.job_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        """Return the trial that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is malformed.
        """
        return cls(
            number=int(data["number"]),
            values=dict(data["values"]),
            state=TrialState(data["state"]),
            measurements=tuple(map(Measurement.from_json, data.get("measurements") or ())),
            final=Measurement.from_json(data["final"]) if data.get("final") is not None else None,
            stopped_early=bool(data.get("stoppedEarly")),
            parent=data.get("parent"),
            message=str(data.get("message") or ""),
            created=float(data.get("created") or 0.0),
            started=data.get("started"),
            ended=data.get("ended"),
            job_id=str(data.get("jobId") or ""),
        )


def arguments_of(study: StudyPlan, trial: Trial) -> dict[str, str]:
    """Return a trial's arguments in the order of the job file, which the record does not keep."""
    return {one.name: text_of(trial.values[one.name]) for one in study.parameters if one.name in trial.values}


def text_of(value: Value) -> str:
    """Return a value as text: numbers so that they are read back to the last digit, whole ones without a point.

    Trainers read DISCRETE values as whole numbers as well, such as ``--batch-size=64``.
    """
    if isinstance(value, float):
        return str(int(value)) if abs(value) < _EXACT and value == int(value) else repr(value)
    return str(value)
