"""A bounded cache of verified tokens: keyed by digest, for minutes at most, and never beyond their end.

Whose a token is, is asked once for all requests that come with it at the same time.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from encamp.api.errors import ApiError
from encamp.api.places import Lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from encamp.api.caller import Caller

#: A token that was taken back is known for so long at most, one that nobody stands behind for so long.
_KNOWN_SECONDS: Final = 300.0
_REFUSED_SECONDS: Final = 10.0
_MOST: Final = 10_000
_MOST_REFUSED: Final = 1_000
#: Askings at the same time: of all, and for one address, which also may have so many more in line.
_MOST_ASKED: Final = 32
_MOST_FOR_ADDRESS, _LINE_FOR_ADDRESS = 8, 64
_LINE_SECONDS: Final = 10.0

_Value = TypeVar("_Value")


class KnownTokens:
    """A cache of verified tokens; for one event loop.

    Args:
        ask: returns a token's owner and the end of its validity (seconds since the epoch); raises ApiError.
        now: seconds since the epoch.
        most: how many are remembered; the one that was not used for longest is forgotten first.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[tuple[Caller, float]]],
        now: Callable[[], float] = time.time,
        *,
        most: int = _MOST,
    ) -> None:
        self._ask = ask
        self._now = now
        self._known: _Bounded[Caller] = _Bounded(most)
        self._refused: _Bounded[ApiError] = _Bounded(min(most, _MOST_REFUSED))
        self._asked: dict[bytes, asyncio.Task[Caller]] = {}
        self._places = asyncio.Semaphore(_MOST_ASKED)
        self._of_addresses = Lines(_MOST_FOR_ADDRESS, _LINE_FOR_ADDRESS, _LINE_SECONDS)

    async def caller(self, token: str, address: str = "") -> Caller:
        """Return a token's owner; unknown tokens of one ``address`` are verified a few at a time.

        Raises:
            ApiError: as ``ask`` does; that nobody stands behind a token is remembered too, an outage is not.
                RESOURCE_EXHAUSTED: very many unknown tokens came from the address.
        """
        digest = hashlib.sha256(token.encode()).digest()
        found = self._remembered(digest)
        if found is not None:
            return found
        async with self._of_addresses.place(address):
            # It may have been told while this one stood in line.
            return self._remembered(digest) or await self._told_once(digest, token)

    def _remembered(self, digest: bytes) -> Caller | None:
        """Return the caller of a token that was told before; raises its refusal."""
        found = self._known.get(digest, self._now())
        if found is None:
            refused = self._refused.get(digest, self._now())
            if refused is not None:
                raise ApiError(refused.status, refused.message)
        return found

    async def _told_once(self, digest: bytes, token: str) -> Caller:
        task = self._asked.get(digest)
        if task is None:
            task = asyncio.create_task(self._told(digest, token))
            self._asked[digest] = task
            task.add_done_callback(lambda done: self._forget(digest, done))
        # The first to ask may go away; the others still wait for the answer.
        return await asyncio.shield(task)

    async def _told(self, digest: bytes, token: str) -> Caller:
        async with self._places:
            try:
                caller, until = await self._ask(token)
            except ApiError as error:
                if error.status != "UNAVAILABLE":
                    self._refused.put(digest, error, self._now() + _REFUSED_SECONDS)
                raise
        self._known.put(digest, caller, min(until, self._now() + _KNOWN_SECONDS))
        return caller

    def _forget(self, digest: bytes, done: asyncio.Task[Caller]) -> None:
        self._asked.pop(digest, None)
        if not done.cancelled():
            # Looked at, so that nobody complains of an error that nobody waited for.
            done.exception()


class _Bounded(Generic[_Value]):
    """Values by digest, each until a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[bytes, tuple[_Value, float]] = OrderedDict()

    def get(self, digest: bytes, now: float) -> _Value | None:
        """Return the value, None if it is missing or expired."""
        value, until = self._values.get(digest, (None, 0.0))
        if value is None or now >= until:
            self._values.pop(digest, None)
            return None
        self._values.move_to_end(digest)
        return value

    def put(self, digest: bytes, value: _Value, until: float) -> None:
        """Remember a value."""
        self._values[digest] = (value, until)
        self._values.move_to_end(digest)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
