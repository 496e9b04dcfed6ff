"""The kubelet's client of the API server: plain JSON over HTTP, with the administrator's client certificate."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOG = logging.getLogger(__name__)
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_GONE = 410
_RETRY_SECONDS = 0.5
#: Longest duration of one watch in seconds; another follows it.
_WATCH_SECONDS = 300


class Api:
    """A client for one API server."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        self._client = httpx.AsyncClient(
            base_url=server,
            verify=context,
            timeout=httpx.Timeout(30.0),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20),
            headers={"User-Agent": "encamp-kubelet"},
            trust_env=False,
        )

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Api:
        """Use the current context of a kubeconfig that identifies by client certificate.

        Raises:
            OSError: a file is missing.
            KeyError: the kubeconfig lacks something.
        """
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        names = next(one["context"] for one in config["contexts"] if one["name"] == config["current-context"])
        cluster = next(one["cluster"] for one in config["clusters"] if one["name"] == names["cluster"])
        user = next(one["user"] for one in config["users"] if one["name"] == names["user"])
        with tempfile.TemporaryDirectory() as folder:
            authority = _file(cluster, "certificate-authority", Path(folder))
            context = ssl.create_default_context(cafile=str(authority))
            certificate, key = (_file(user, name, Path(folder)) for name in ("client-certificate", "client-key"))
            context.load_cert_chain(certificate, key)
        return cls(cluster["server"], context)

    async def get(self, path: str) -> dict[str, Any] | None:
        """Return an object or list, None if there is none. Raises httpx.HTTPError."""
        answer = await self._client.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _checked(answer)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Create an object; None if it exists already. Raises httpx.HTTPError."""
        answer = await self._client.post(path, json=body)
        return None if answer.status_code == httpx.codes.CONFLICT else _checked(answer)

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Put an object. Raises httpx.HTTPError."""
        return _checked(await self._client.put(path, json=body))

    async def patch(self, path: str, body: dict[str, Any], kind: str = STRATEGIC) -> dict[str, Any] | None:
        """Patch an object; None if it is gone, or another one of the same name. Raises httpx.HTTPError."""
        answer = await self._client.patch(path, content=json.dumps(body), headers={"Content-Type": kind})
        return None if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT) else _checked(answer)

    async def delete(self, path: str, options: dict[str, Any] | None = None) -> bool:
        """Delete an object; False if it was gone, or another one of the same name. Raises httpx.HTTPError."""
        answer = await self._client.request("DELETE", path, json=options or {})
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            return False
        _checked(answer)
        return True

    async def watch(self, path: str, **parameters: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield what is there and what changes, for ever, however often the API server goes away.

        Events are ``("LIST", list)``, at first and whenever it had to be read again, then ``ADDED``, ``MODIFIED``
        and ``DELETED`` with the object.
        """
        while True:
            try:
                found = await self.get(f"{path}?{httpx.QueryParams(parameters)}") or {}
                version = found.get("metadata", {}).get("resourceVersion", "")
                yield "LIST", found
                while version:
                    async for kind, body in self._changes(path, version, parameters):
                        version = body["metadata"]["resourceVersion"]
                        if kind != "BOOKMARK":
                            yield kind, body
            except (httpx.HTTPError, _StaleError, json.JSONDecodeError) as error:
                _LOG.info("watching %s again: %s", path, error or type(error).__name__)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _changes(
        self, path: str, version: str, parameters: dict[str, str]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        query = {
            **parameters,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._client.stream("GET", path, params=query, timeout=httpx.Timeout(30, read=None)) as answer:
            if answer.status_code == _GONE:
                raise _StaleError("the version is too old")
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _StaleError(event["object"].get("message", ""))
                yield event["type"], event["object"]

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class _StaleError(Exception):
    """The server cannot go on from the version we have."""


def _file(entry: dict[str, str], name: str, folder: Path) -> Path:
    if name in entry:
        return Path(entry[name])
    path = folder / name
    path.write_bytes(base64.b64decode(entry[f"{name}-data"]))
    return path


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        message = answer.text[:500]
        raise httpx.HTTPStatusError(f"{answer.status_code} {message}", request=answer.request, response=answer)
    return answer.json()


def is_refused(error: httpx.HTTPError) -> bool:
    """Whether the API server will say the same however often it is asked."""
    status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
    return httpx.codes.is_client_error(status) and status != httpx.codes.TOO_MANY_REQUESTS
