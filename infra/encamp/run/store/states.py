"""States of a job and how it ended, in the words of AI Platform's Job resource (spec 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from encamp.errors import ExitCode


class State(StrEnum):
    """The state of a job."""

    QUEUED = "QUEUED"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        """Whether nothing comes after it."""
        return self in {State.SUCCEEDED, State.FAILED, State.CANCELLED}


#: Allowed transitions of states.
FOLLOWING = {
    State.QUEUED: {State.PREPARING, State.FAILED, State.CANCELLING},
    State.PREPARING: {State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLING},
    State.RUNNING: {State.SUCCEEDED, State.FAILED, State.CANCELLING},
    State.CANCELLING: {State.CANCELLED},
    State.SUCCEEDED: set[State](),
    State.FAILED: set[State](),
    State.CANCELLED: set[State](),
}

EXIT_CODES = {
    State.SUCCEEDED: ExitCode.OK,
    State.FAILED: ExitCode.JOB_FAILED,
    State.CANCELLED: ExitCode.CANCELLED,
}


@dataclass(frozen=True)
class ReplicaFailure:
    """A replica that ended the job.

    Attributes:
        replica: such as ``worker-replica-1``.
        exit_code: 128 and the signal's number where a signal ended it; None if it never ran.
        reason: in plain words, from the replica's termination message or from Kubernetes.
        last_lines: the end of its log, ten lines at most.
    """

    replica: str
    exit_code: int | None
    reason: str
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: ``state`` is SUCCEEDED, FAILED or CANCELLED, ``message`` says why (errorMessage)."""

    state: State
    message: str = ""
    failure: ReplicaFailure | None = None

    @property
    def exit_code(self) -> ExitCode:
        """The command's exit code if tear-down goes well."""
        return EXIT_CODES[self.state]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal and the receipt."""
        failure = self.failure
        return {
            "state": str(self.state),
            "message": self.message,
            "failure": None
            if failure is None
            else {
                "replica": failure.replica,
                "exitCode": failure.exit_code,
                "reason": failure.reason,
                "lastLines": list(failure.last_lines),
            },
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Return the outcome that ``to_json`` wrote."""
        failure = data.get("failure")
        return cls(
            state=State(data["state"]),
            message=data.get("message", ""),
            failure=None
            if failure is None
            else ReplicaFailure(
                failure["replica"], failure["exitCode"], failure["reason"], tuple(failure["lastLines"])
            ),
        )
