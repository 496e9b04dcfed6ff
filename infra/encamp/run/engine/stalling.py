"""Ends an engine run that has stopped saying anything: it waits for an answer that never comes.

Providers bound their own requests and operations, so silence as long as this is a connection that died without a word,
or a provider that hangs. First the engine is asked to stop; one that cannot even do that is killed, and what it was
making is settled with the cloud's listing.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from encamp.errors import UsageError
from encamp.run.engine.events import Failure
from encamp.run.periodic import Periodic

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.run.engine.events import EventLog

#: Names another limit, in seconds.
STALL_VARIABLE = "ENCAMP_STALL_SECONDS"
#: Google's slowest operations of a job (node pools) are given half an hour by the provider; and half as much.
_STALL_SECONDS = 2700.0
#: Seconds that an engine has to stop after it was asked to.
_STOP_SECONDS = 120.0
_LOOKS = 10


def stall_seconds() -> float:
    """Return seconds for which an engine run may be silent.

    Raises:
        UsageError: the variable holds no number of seconds.
    """
    given = os.environ.get(STALL_VARIABLE)
    try:
        seconds = float(given) if given else _STALL_SECONDS
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"{given!r} is no number of seconds", where=STALL_VARIABLE, hint="such as 2700")
    return seconds


class Stoppable(Protocol):
    """The running command."""

    def interrupt(self) -> None:
        """Ask it to stop after the steps in flight."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class StallWatch(Periodic):
    """Looks at a run's events beside it.

    Args:
        events: of the run.
        seconds: how long it may say nothing.
        command: ends it.
        show: gets a line for people.
    """

    def __init__(self, events: EventLog, seconds: float, command: Stoppable, show: Callable[[str], None]) -> None:
        super().__init__("stall", min(seconds, _STOP_SECONDS) / _LOOKS)
        self._events = events
        self._limit = seconds
        self._command = command
        self._show = show
        self._asked: float | None = None

    def step(self) -> bool:
        """Look once; False when the run is killed."""
        now = time.monotonic()
        if self._asked is None:
            if now - self._events.last > self._limit:
                self._asked = now
                why = f"timed out: the engine has said nothing for {self._limit:.0f} s"
                self._show(f"{why}; it is asked to stop")
                self._events.note(Failure("", why))
                self._command.interrupt()
        elif now - self._asked > _STOP_SECONDS:
            self._show("the engine does not stop; it is killed")
            self._command.kill()
            return False
        return True
