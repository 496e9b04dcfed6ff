"""Failures of engine runs, from the messages of its CLI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.run.engine.events import Failure

if TYPE_CHECKING:
    from encamp.run.engine.events import EventLog

_SHOWN_CHARACTERS = 120


class NoStackError(EngineError):
    """The engine's backend has no stack of this name."""


class StackExistsError(EngineError):
    """The engine's backend has a stack of this name already."""


class LockedError(EngineError):
    """Another engine run has the stack's lock, or died with it; ``lock`` is the engine's message about it."""

    def __init__(self, stack: str, lock: str) -> None:
        super().__init__(
            "another engine run holds the stack's lock", where=f"stack {stack}", hint="run `encamp reap` later"
        )
        self.lock = lock


class UnreadableStateError(EngineError):
    """A stack's state is damaged, and no engine can read it; ``file`` says where it is, also as a ``gs://`` name."""

    def __init__(self, stack: str, file: str, why: str) -> None:
        super().__init__(
            f"its state {file} cannot be read: {why}",
            where=f"stack {stack}",
            hint=f"`encamp reap` sets the states of jobs aside; for others compare {file}.bak, the engine's own copy",
        )
        self.file = file


class RunError(EngineError):
    """An engine run failed.

    Attributes:
        failures: what the engine says of it, each with the resource that it is about.
        unanswered: creates that failed, and may have been done all the same.
    """

    def __init__(self, what: str, stack: str, events: EventLog) -> None:
        super().__init__(what, where=f"stack {stack}", hint=advice(what))
        self.failures = tuple(events.failures) or (Failure("", what),)
        self.unanswered = tuple(events.unanswered)


def parsed(answer: str, where: str) -> Any:
    """Return the JSON that the CLI printed.

    Raises:
        EngineError: it printed something else, or nothing.
    """
    try:
        return json.loads(answer)
    except ValueError as error:
        shown = " ".join(answer.split())[:_SHOWN_CHARACTERS]
        raise EngineError(
            f"the engine's answer is no JSON: {shown!r}",
            where=where,
            hint="run the same by `pulumi` to see why; a full disk under TMPDIR cuts answers off",
        ) from error


def advice(message: str) -> str | None:
    """Return advice for a failure of the CLI, None if nothing is known."""
    if "no space left on device" not in message.lower():
        return None
    return "make room on the disk of the engine's backend and of TMPDIR, then run `encamp reap`: nothing is lost"


def excerpt(message: str) -> str:
    """Return the CLI's own error lines of a CommandError."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:") or "stderr: error:" in line]
    return "; ".join(line.rpartition("error:")[2].strip() for line in errors) or " ".join(lines[-3:])
