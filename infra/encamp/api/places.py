"""Concurrency limits of requests: a number in all, and a number for each caller.

Only authenticated requests take a place, so strangers take none from them. A caller whose own places are taken waits in
line for a moment, which does not cost others anything; the shared places are for work alone, not for waiting on a
client's body.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

#: All places taken, and none given back for so long: the service stands still.
STUCK_SECONDS: Final = 10.0


@dataclass(frozen=True)
class PlaceLimits:
    """The limits of concurrent requests of a kind.

    Attributes:
        work: in all.
        caller: of one caller, from authentication until the answer is sent.
        line: of one caller beyond these, waiting for one of these to end.
        line_seconds: how long one waits.
    """

    work: int = 64
    caller: int = 16
    line: int = 48
    line_seconds: float = 10.0


@dataclass
class _Own:
    """The places of one caller; ``present`` counts those in line too."""

    free: asyncio.Semaphore
    present: int = 0


@dataclass
class Lines:
    """A bounded number of places for each of many, with a bounded line before them; for one event loop.

    Attributes:
        places: how many somebody has at once.
        line: how many more may wait.
        seconds: how long one waits.
    """

    places: int
    line: int
    seconds: float
    _own: dict[str, _Own] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def place(self, who: str) -> AsyncIterator[None]:
        """Hold a place of ``who``.

        Raises:
            ApiError: RESOURCE_EXHAUSTED; the line is full, or did not move in time.
        """
        own = self._own.setdefault(who, _Own(asyncio.Semaphore(self.places)))
        if own.present >= self.places + self.line:
            raise _too_many(self.places)
        own.present += 1
        try:
            try:
                async with asyncio.timeout(self.seconds):
                    await own.free.acquire()
            except TimeoutError:
                raise _too_many(self.places) from None
            try:
                yield
            finally:
                own.free.release()
        finally:
            own.present -= 1
            if not own.present:
                del self._own[who]


class Work:
    """The places that all callers share; for one event loop.

    Args:
        most: how many there are.
        clock: seconds that only grow.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._taken = 0
        self._full_since: float | None = None

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place.

        Raises:
            ApiError: UNAVAILABLE; all are taken.
        """
        if self._taken >= self._most:
            raise ApiError("UNAVAILABLE", "The service has too much to do; try again.", retry_after=1)
        self._taken += 1
        if self._taken == self._most:
            self._full_since = self._clock()
        try:
            yield
        finally:
            self._taken -= 1
            self._full_since = None

    def check(self) -> None:
        """Raise if the service stands still: all places taken, none given back. For probes, from any thread.

        Raises:
            TimeoutError: it does.
        """
        since = self._full_since
        if since is not None and self._clock() - since > STUCK_SECONDS:
            raise TimeoutError


class Places:
    """The places of one kind of requests: each caller's own, and those that all share."""

    def __init__(self, limits: PlaceLimits | None = None) -> None:
        self.limits = limits or PlaceLimits()
        self.callers = Lines(self.limits.caller, self.limits.line, self.limits.line_seconds)
        self.work = Work(self.limits.work)


def _too_many(places: int) -> ApiError:
    message = f"You have {places} requests at work already, and more in line; send fewer at once, or try again."
    return ApiError("RESOURCE_EXHAUSTED", message, retry_after=1)
