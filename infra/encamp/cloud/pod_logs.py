"""Logs of any number of pods over one event loop: a connection each while one is followed, and no thread.

Nothing is retried here: whoever reads a log knows how far it came, and asks again from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from encamp.cloud.api_client import async_api_client
from encamp.cloud.kubernetes import collection, parsed, reason
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_NOT_FOUND = 404
#: A log stream that is silent for so long is asked again: the connection may be dead without saying so.
_SILENCE_SECONDS = 300.0


class LogUnavailableError(Exception):
    """The API server has no log for the container now."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PodLogs:
    """The pods of one API server, for one event loop.

    Args:
        kubeconfig: text of a kubeconfig; its current context counts.
    """

    def __init__(self, kubeconfig: str) -> None:
        self._http = async_api_client(kubeconfig)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def read(
        self, namespace: str, pod: str, container: str, *, follow: bool, since: str | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield a container's log as bytes, each line begun by its RFC 3339 time; ends with the container.

        With ``follow`` it waits for more. ``since`` is the RFC 3339 time of the first line wanted; whole seconds count.

        Raises:
            LogUnavailableError: there is no log (yet).
            httpx.HTTPError: the connection broke.
        """
        query = {"container": container, "timestamps": "true", "follow": str(follow).lower()}
        if since:
            query["sinceTime"] = since
        timeout = httpx.Timeout(30.0, read=_SILENCE_SECONDS, pool=None)
        path = f"{collection('pods', namespace)}/{pod}/log"
        async with self._http.stream("GET", path, params=query, timeout=timeout) as answer:
            if answer.is_error:
                await answer.aread()
                raise LogUnavailableError(answer.status_code, reason(answer))
            async for piece in answer.aiter_bytes():
                yield piece

    async def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a pod as it is now, or None.

        Raises:
            EngineError: the API server gives no usable answer.
        """
        path = f"{collection('pods', namespace)}/{name}"
        try:
            answer = await self._http.get(path)
        except httpx.HTTPError as error:
            raise EngineError(f"the API server gives no answer: {type(error).__name__}", where=path) from error
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.is_error:
            raise EngineError(f"the API server refused: {reason(answer)}", where=path)
        return parsed(answer)
