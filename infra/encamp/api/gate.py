"""The gate before the service: probes, and protection of a service without credentials.

A probe takes no place of the service's, so that it is answered however much there is to do.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Paths of probes: whether the process lives, and whether it should be sent requests.
HEALTHY, READY = "/healthz", "/readyz"
#: Seconds that the record's answer to a probe counts, and seconds to wait for it.
_KNOWN_SECONDS, _ASKED_SECONDS = 1.0, 3.0
#: Tells a client that nothing more is answered on its connection.
_LAST: Final = (b"connection", b"close")
#: Values of Sec-Fetch-Site for a request that the service's own page began, or a person.
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})


class Gate:
    """An ASGI app around another.

    Args:
        app: the service.
        ready: asks what the service cannot do without; raises where it is not there. Called in a thread.
        open_to_this_machine: whether nobody is asked for credentials, so that only what this machine's own programs
            send is taken: no page of a browser, and no name that leads here by somebody's DNS.
    """

    def __init__(self, app: ASGIApp, *, ready: Callable[[], object], open_to_this_machine: bool) -> None:
        self._app = app
        self._ready = ready
        self._open = open_to_this_machine
        self._known: tuple[float, bool] = (0.0, False)
        self._asking = asyncio.Lock()
        self._look: asyncio.Future[object] | None = None
        #: Set when the server is told to end: nobody should be sent here any more.
        self.ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the service answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        probe = await self._probe(scope) if scope["path"] in (HEALTHY, READY) else None
        if probe is not None:
            await _send(send, 200 if probe else 503, b"ok\n" if probe else b"not ready\n", "text/plain")
            return
        refusal = _stranger(scope["headers"]) if self._open else None
        if refusal is not None:
            await _refuse(send, refusal)
        else:
            await self._served(scope, receive, send)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            if self.ending and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), _LAST]}
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            # The server ends and has waited long enough; whoever asked may ask the next one.
            if begun:
                raise
            await _refuse(send, ApiError("UNAVAILABLE", "The service is ending."), _LAST)

    async def _probe(self, scope: Scope) -> bool | None:
        """Return the answer to a probe, None if the request is no probe."""
        if scope["method"] not in ("GET", "HEAD"):
            return None
        if scope["path"] == HEALTHY:
            return True
        return not self.ending and await self._is_ready()

    async def _is_ready(self) -> bool:
        # Anybody may ask, so nobody makes the record work: one look serves all of a second.
        async with self._asking:
            at, known = self._known
            if time.monotonic() - at < _KNOWN_SECONDS:
                return known
            # A look that hangs is waited for anew, not followed by others, each of which would take a thread.
            if self._look is None or self._look.done():
                self._look = asyncio.ensure_future(asyncio.to_thread(self._ready))
            done, _ = await asyncio.wait({self._look}, timeout=_ASKED_SECONDS)
            known = bool(done) and self._look.exception() is None
            self._known = time.monotonic(), known
            return known


def _stranger(headers: Sequence[tuple[bytes, bytes]]) -> ApiError | None:
    """Return why a request is not from this machine's own programs, None if it may be.

    Browsers send a page's requests to loopback, too. Such a page shows itself by the name under which it found us, or
    by the site that it says it is of. Source: fetch.spec.whatwg.org (Origin), w3c.github.io/webappsec-fetch-metadata.
    """
    hosts = [value for name, value in headers if name == b"host"]
    origins = [value for name, value in headers if name == b"origin"]
    sites = [value for name, value in headers if name == b"sec-fetch-site"]
    if len(hosts) != 1 or not _is_loopback(hosts[0]):
        return ApiError("PERMISSION_DENIED", "Without credentials only 127.0.0.1 and localhost are answered as Host.")
    own = b"http://" + hosts[0].lower()
    foreign = [site for site in sites if site.strip().lower() not in _OWN_SITES]
    if foreign or any(origin.strip().lower() != own for origin in origins):
        return ApiError("PERMISSION_DENIED", "Without credentials no page of another site is answered.")
    return None


def _is_loopback(host: bytes) -> bool:
    """Whether a Host header names this machine: ``localhost``, or an address of loopback, with or without a port."""
    try:
        text = host.decode("ascii")
        found = urlsplit(f"//{text}")
        name = found.hostname or ""
        # A remainder is no host; and a port that is no number raises here.
        if found.netloc != text or found.username is not None or found.port == 0:
            return False
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _refuse(send: Send, error: ApiError, *headers: tuple[bytes, bytes]) -> None:
    await _send(send, error.code, json.dumps(error.body()).encode(), "application/json; charset=UTF-8", *headers)


async def _send(send: Send, code: int, body: bytes, kind: str, *headers: tuple[bytes, bytes]) -> None:
    whole = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": code, "headers": whole})
    await send({"type": "http.response.body", "body": body})
