"""Bring-up of a job's stack, with retries of transient failures.

The engine's ``up`` goes on from the stack's state: what was made stays made. Between two attempts every create that may
have been done without the engine's knowing it is settled with the cloud's own listing, or its name would be taken. A
refusal ends it at once, as do a cancel and the job's limits; a fault that stays ends it within the policy's time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from encamp.errors import EncampError, EngineError
from encamp.retries import RetryPolicy
from encamp.run.engine.events import Failure
from encamp.run.engine.run_errors import LockedError, RunError
from encamp.run.engine.transient import is_existing, is_not_seen_yet, is_transient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from encamp.run.engine.unanswered import Unanswered

#: Attempts begin within a quarter of an hour after the first failure, and the second one in any case.
POLICY = RetryPolicy(attempts=12, first_pause=2.0, longest_pause=90.0, total=900.0)
_SHOWN_CHARACTERS = 300
#: The engine's messages for every run that failed.
_EMPTY_WORDS = ("update failed", "resource creation failed", "one or more errors occurred", "update canceled")


class Preparation(Protocol):
    """The parts of an attempt to bring a stack up, and the work between two attempts."""

    def start(self) -> None:
        """Bring the stack up, resuming from its state.

        Raises:
            EncampError: it failed.
        """
        ...

    def settle(self, creates: Sequence[Unanswered], lock: str) -> None:
        """Take away a dead engine's lock, and delete what these creates and those that never had an answer made.

        ``lock`` is what the engine said of a lock that kept the last attempt from beginning, empty for none.

        Raises:
            EncampError: the engine or the cloud cannot be asked.
        """
        ...

    def made(self) -> Collection[str]:
        """Return names, ids and e-mails of the things that were made."""
        ...

    def check(self) -> None:
        """Raise if the job is cancelled or beyond its limits.

        Raises:
            EncampError: it is to end.
        """
        ...

    def pause(self, seconds: float) -> None:
        """Pause; a cancel ends the pause at once."""
        ...


@dataclass
class BringUp:
    """One stack that is brought up.

    Attributes:
        preparation: does it.
        show: gets a line for people.
        note: gets the journal's entry of each attempt that is followed by another.
        policy: how often and how long it is tried.
    """

    preparation: Preparation
    show: Callable[[str], None]
    note: Callable[[dict[str, Any]], None]
    policy: RetryPolicy = field(default_factory=lambda: POLICY)
    clock: Callable[[], float] = time.monotonic
    _unanswered: dict[str, Unanswered] = field(default_factory=dict)
    _lock: str = ""
    _first: EncampError | None = None
    _since: float = 0.0

    def run(self) -> None:
        """Bring the job up.

        Raises:
            EncampError: it is refused, a fault stayed, or the job is to end; the first error is in the text too.
        """
        attempt = 1
        while True:
            try:
                if attempt > 1:
                    self.preparation.settle(tuple(self._unanswered.values()), self._lock)
                    self.preparation.check()
                self.preparation.start()
            except EncampError as error:
                self.preparation.check()
                self._wait(error, attempt)
            else:
                return
            attempt += 1

    def _wait(self, error: EncampError, attempt: int) -> None:
        """Wait for the next attempt, if there is to be one.

        Raises:
            EncampError: there is none.
        """
        if self._first is None:
            self._first, self._since = error, self.clock()
        transient = self._is_transient(error)
        self._lock = error.lock if isinstance(error, LockedError) else ""
        if isinstance(error, RunError):
            self._unanswered |= {create.name: create for create in error.unanswered}
        pause = self.policy.pause(attempt)
        late = attempt > 1 and self.clock() - self._since + pause > (self.policy.total or float("inf"))
        if not transient or attempt >= self.policy.attempts or late:
            raise self._final(error, attempt) from error
        what = _short(error)
        self.note({"attempt": attempt, "error": what, "pause": round(pause, 1)})
        self.show(f"bringing up is tried again in {pause:.0f} s (attempt {attempt + 1}): {what}")
        self.preparation.pause(pause)
        self.preparation.check()

    def _is_transient(self, error: EncampError) -> bool:
        """Whether every failure of an attempt may pass."""
        if isinstance(error, LockedError):
            return True
        failures = error.failures if isinstance(error, RunError) else (Failure("", error.what),)
        telling = [one for one in failures if one.message.strip().rstrip(".") not in _EMPTY_WORDS]
        return bool(telling) and all(self._may_pass(one) for one in telling)

    def _may_pass(self, failure: Failure) -> bool:
        if is_transient(failure.message):
            return True
        if is_existing(failure.message):
            # Made by a create of ours whose answer was lost; anybody else's stays.
            return failure.name in self._unanswered
        return is_not_seen_yet(failure.message, self.preparation.made())

    def _final(self, error: EncampError, attempt: int) -> EncampError:
        if attempt == 1 or self._first is None:
            return error
        minutes = (self.clock() - self._since) / 60
        tried = f"{error.what} (attempt {attempt}, {minutes:.0f} min after the first error)"
        if self._first.what == error.what:
            return EngineError(tried, where=error.where, hint=error.hint)
        return EngineError(f"{tried}; first: {_short(self._first)}", where=error.where, hint=error.hint)


def _short(error: EncampError) -> str:
    what = " ".join(error.what.split())
    return what if len(what) <= _SHOWN_CHARACTERS else f"{what[:_SHOWN_CHARACTERS]}…"
