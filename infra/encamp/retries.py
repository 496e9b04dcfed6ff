"""Bounded retries: exponential backoff with jitter, the one policy for everything that is asked of a cloud.

Who asks decides which errors may pass and raises ``TransientError`` for these; every other error ends the retries at
once. A pause follows the server's ``Retry-After`` where it gave one.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries: number and duration; times in seconds.

    Attributes:
        attempts: most attempts, the first among them.
        first_pause: longest pause before the second attempt; each further one is twice as long.
        longest_pause: where that ends; a server's ``Retry-After`` is followed up to here as well.
        total: how long after the first attempt a further one may begin; None for as many attempts as there are.
    """

    attempts: int
    first_pause: float
    longest_pause: float
    total: float | None = None

    def pause(self, attempt: int, wanted: float | None = None) -> float:
        """Return seconds to pause after so many attempts; ``wanted`` is the least that a server asks for.

        Between half of the bound and all of it, so that clients that failed together do not come back together.
        """
        bound = min(self.first_pause * 2 ** (attempt - 1), self.longest_pause)
        spread = bound * random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it
        return max(spread, min(wanted or 0.0, self.longest_pause))

    def at_most(self, attempts: int | None) -> RetryPolicy:
        """Return the same policy with fewer attempts, for what must not simply be repeated; None changes nothing."""
        return self if attempts is None else replace(self, attempts=min(attempts, self.attempts))


#: For a person who waits for an answer: gives up within about 15 seconds.
SHORT = RetryPolicy(attempts=6, first_pause=0.5, longest_pause=20.0)
#: Before a job begins: gives up within about a minute, as long as a server takes to be back that is restarted.
STEADY = RetryPolicy(attempts=12, first_pause=0.5, longest_pause=10.0, total=60.0)
#: For work on a job that somebody relies on: gives up within about five minutes.
PATIENT = RetryPolicy(attempts=20, first_pause=0.5, longest_pause=32.0, total=300.0)


class TransientError(Exception):
    """An error that may pass.

    Args:
        error: what is raised when the attempts are used up.
        wanted: seconds that the server asks to wait.
    """

    def __init__(self, error: Exception, wanted: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wanted = wanted


def with_retries(
    work: Callable[[], _Answer],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None] = time.sleep,
    told: Callable[[int, float, Exception], None] = lambda *_: None,
) -> _Answer:
    """Retry ``work`` until it returns, or raises anything but ``TransientError``, or the policy ends.

    ``told`` gets the number of attempts, the pause that follows, and the error, before each pause.

    Raises:
        Exception: the ``error`` of the last ``TransientError``.
    """
    from tenacity import (  # noqa: PLC0415 - commands that ask no cloud do without it
        Retrying,
        retry_if_exception_type,
        stop_after_attempt,
        stop_before_delay,
        stop_never,
    )

    def pause(state: RetryCallState) -> float:
        return policy.pause(state.attempt_number, _transient(state).wanted)

    def before(state: RetryCallState) -> None:
        told(state.attempt_number, state.upcoming_sleep, _transient(state).error)

    late = stop_never if policy.total is None else stop_before_delay(policy.total)
    retrying = Retrying(
        stop=stop_after_attempt(policy.attempts) | late,
        wait=pause,
        retry=retry_if_exception_type(TransientError),
        sleep=sleep,
        before_sleep=before,
        reraise=True,
    )
    try:
        return retrying(work)
    except TransientError as last:
        cause = last.__cause__ if last.__cause__ is not last.error else last.error.__cause__
        raise last.error from cause


def _transient(state: RetryCallState) -> TransientError:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, TransientError):
        raise TypeError(f"{error!r} is not retried")
    return error


def retry_after(header: str | None) -> float | None:
    """Return seconds of a ``Retry-After`` header; None if there is none, or it names a date."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
