"""The provider's HTTP client: Google's REST APIs with the official provider's retries, operations and locks.

Source of the retries: hashicorp/terraform-provider-google-beta google-beta/transport (error_retry_predicates.go,
retry_transport.go): 429, 500, 502, 503 and some refusals that pass, after 0.5, 1, 1.5, 2.5, 4 … seconds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.types import ASGIApp

#: User agent of the provider for the front and its faults.
USER_AGENT: Final = "encamp-gcp-provider"
_RETRIED = frozenset({429, 500, 502, 503})
_CONFLICTS = frozenset({409, 412})
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_RETRY_SECONDS = 90.0
_POLL_SECONDS = 0.1
_LONGEST_POLL = 2.0
#: Seconds that a request may go on for which the engine waits no longer.
_GRACE_SECONDS = 1.0
_Done = TypeVar("_Done")


@dataclass(frozen=True)
class Patience:
    """The time limit of one operation of the engine.

    Attributes:
        cancelled: is set when the engine has given up.
        ends: on the monotonic clock; None for as long as it takes.
    """

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    ends: float | None = None

    @classmethod
    def within(cls, cancelled: asyncio.Event, seconds: float | None) -> Patience:
        """Return the patience for so many seconds."""
        return cls(cancelled, None if seconds is None else time.monotonic() + seconds)

    def left(self, most: float) -> float:
        """Return seconds that are left, at most ``most``."""
        return most if self.ends is None else max(0.0, min(most, self.ends - time.monotonic()))

    async def sleep(self, seconds: float) -> None:
        """Wait, and give up when the engine does.

        Raises:
            GoogleError: 504; the engine has given up, or the time is over.
        """
        if self.left(seconds) < seconds:
            raise _given_up()
        try:
            await asyncio.wait_for(self.cancelled.wait(), seconds)
        except TimeoutError:
            return
        raise _given_up()

    async def hold(self, work: Awaitable[_Done]) -> _Done:
        """Wait for work, no longer than the engine does and a moment.

        Raises:
            GoogleError: 504; the engine has given up, or the time is over.
        """
        task = asyncio.ensure_future(work)
        given_up = asyncio.ensure_future(self.cancelled.wait())
        try:
            limit = None if self.ends is None else self.left(float("inf"))
            await asyncio.wait({task, given_up}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=_GRACE_SECONDS)
            if not task.done():
                raise _given_up()
            return task.result()
        finally:
            given_up.cancel()
            task.cancel()


class Rest:
    """Google's APIs behind one address, as the sandbox's front serves them.

    Args:
        client: knows the address and the token.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @classmethod
    def inside(cls, front: ASGIApp, token: str) -> Rest:
        """Return a client of a front in the same process."""
        headers = {"authorization": f"Bearer {token}", "user-agent": USER_AGENT}
        transport = httpx.ASGITransport(app=front)
        # A request's time limit is its operation's (``Patience``).
        timeout = httpx.Timeout(None)
        return cls(
            httpx.AsyncClient(base_url="http://127.0.0.1", transport=transport, headers=headers, timeout=timeout)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock of a resource that is read and then written, such as a policy."""
        return self._locks[key]

    async def call(
        self,
        method: str,
        path: str,
        patience: Patience,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask, and ask again where a refusal passes.

        Raises:
            GoogleError: the API refuses it, or does not answer in time.
        """

        async def once() -> dict[str, Any]:
            response = await self._client.request(method, path, json=body, params=query)
            return _answer(response)

        return await retried(lambda: patience.hold(once()), patience)

    async def find(
        self, path: str, patience: Patience, query: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        """Read what may not be there: None for 404."""
        try:
            return await self.call("GET", path, patience, query=query)
        except GoogleError as error:
            if error.code != httpx.codes.NOT_FOUND:
                raise
            return None

    async def upload(
        self, path: str, patience: Patience, metadata: Mapping[str, Any], content: Callable[[], AsyncIterator[bytes]]
    ) -> dict[str, Any]:
        """Upload an object by a resumable session; its metadata first, then its bytes.

        Raises:
            GoogleError: the API refuses it.
        """

        async def once() -> dict[str, Any]:
            query = {"uploadType": "resumable", "name": metadata["name"]}
            opened = await self._client.post(path, params=query, json=dict(metadata))
            _answer(opened)
            put = await self._client.put(opened.headers["location"], content=content())
            return _answer(put)

        return await retried(lambda: patience.hold(once()), patience)

    async def finished(self, operation: dict[str, Any], path: str, patience: Patience) -> dict[str, Any]:
        """Wait for the end of an operation that the API answered; ``path`` is where it is read again.

        Raises:
            GoogleError: the operation has failed, or does not end in time.
        """
        wait = _POLL_SECONDS
        while not (operation.get("done") or operation.get("status") == "DONE"):
            await patience.sleep(wait)
            wait = min(wait * 2, _LONGEST_POLL)
            operation = await self.call("GET", path, patience)
        if error := operation.get("error"):
            raise GoogleError(int(error.get("code") or 500), str(error.get("message") or error))
        return operation

    async def rewritten(
        self, key: str, work: Callable[[], Awaitable[_Done]], patience: Patience, passing: Callable[[GoogleError], bool]
    ) -> _Done:
        """Read and write something that others write too, again where they were quicker.

        ``key`` is its lock, and ``passing`` says of other refusals whether they pass.
        """
        async with self.lock(key):
            return await retried(work, patience, lambda error: error.code in _CONFLICTS or passing(error))


async def retried(
    work: Callable[[], Awaitable[_Done]],
    patience: Patience,
    passing: Callable[[GoogleError], bool] = lambda _error: False,
) -> _Done:
    """Retry for as long as its refusals are transient."""
    wait, following = _FIRST_WAIT, _FIRST_WAIT
    ends = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            return await work()
        except GoogleError as error:
            if time.monotonic() > ends or not (_passes(error) or passing(error)):
                raise
        await patience.sleep(min(wait, _LONGEST_WAIT) * random.uniform(0.8, 1.0))  # noqa: S311 - spreads retries
        wait, following = wait + following, wait


def _passes(error: GoogleError) -> bool:
    """Whether the official provider asks again after this refusal."""
    if error.code in _RETRIED:
        return True
    by_minute = error.code == httpx.codes.FORBIDDEN and "per minute" in error.message
    in_progress = error.code == httpx.codes.CONFLICT and error.reason == "operationInProgress"
    not_ready = error.code == httpx.codes.BAD_REQUEST and error.reason == "resourceNotReady"
    return by_minute or in_progress or not_ready


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON of an answer, or its refusal."""
    if response.is_success:
        try:
            return response.json() if response.content else {}
        except ValueError:
            raise GoogleError(502, f"The answer is no JSON: {response.text[:200]}", reason="backendError") from None
    try:
        error = response.json()["error"]
        reason = next((one.get("reason") for one in error.get("errors") or ()), None)
        raise GoogleError(response.status_code, error["message"], reason=reason, status=error.get("status"))
    except (ValueError, KeyError, TypeError):
        raise GoogleError(response.status_code, response.text[:200]) from None


def _given_up() -> GoogleError:
    return GoogleError(504, "The request timed out; it may have been done.", reason="deadlineExceeded")
