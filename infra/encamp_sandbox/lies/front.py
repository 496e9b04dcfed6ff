"""Stands before the front of the sandbox's cloud, and tells the lies that are switched on.

- ``GET | PUT /encamp/v1/lies`` ``{"on": [belief, …]}``: the switches; administrators only.
- ``/api``, ``/apis``, ``/version``, ``/openapi``: the Kubernetes API server, whose answers are changed. While a lie is
  on, GKE's API names this address as that of clusters, so that whoever is made then asks here.

Without a lie every request goes on as it came.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.lies.model import ERRORS, Asked, Told
from encamp_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from encamp_sandbox.layout import Layout
    from encamp_sandbox.lies.model import Lie
    from encamp_sandbox.lies.switches import Switches

_KUBERNETES: Final = ("api", "apis", "version", "openapi")
_SWITCHES: Final = "/encamp/v1/lies"
_DOMAIN: Final = ".googleapis.com"
_HOP_BY_HOP: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CONNECT_SECONDS: Final = 5.0
_ENDLESS: Final = ("watch", "follow")


class LyingFront:
    """An ASGI application around the front.

    Args:
        app: the front.
        switches: which lies are told.
    """

    def __init__(self, app: ASGIApp, switches: Switches, layout: Layout) -> None:
        self._app = app
        self._switches = switches
        self._layout = layout
        context = ssl.create_default_context(cafile=str(layout.ca_certificate))
        # What is watched has no end; the API server ends it.
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        url = f"https://{LOOPBACK}:{layout.ports.apiserver}"
        self._api = httpx.AsyncClient(base_url=url, verify=context, timeout=timeout, trust_env=False)

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._api.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == _SWITCHES:
            await (await self._switched(Request(scope, receive)))(scope, receive, send)
        elif _is_kubernetes(scope):
            await (await self._kubernetes(Request(scope, receive)))(scope, receive, send)
        elif not self._switches.on:
            await self._app(scope, receive, send)
        else:
            await self._lie(scope, receive, send)

    async def _switched(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self._layout.token}":
            return JSONResponse(GoogleError(403, "Only the sandbox's administrator may call this.").body(), 403)
        if request.method == "PUT":
            try:
                self._switches.set(list((await request.json()).get("on") or ()))
            except GoogleError as error:
                return JSONResponse(error.body(), error.code)
        return JSONResponse({"on": [lie.belief for lie in self._switches.on], "known": self._switches.known})

    async def _lie(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the lies change it, and answer as they change the answer."""
        asked = self._switches.counted(await _asked(scope, receive))
        lies = [lie for lie in self._switches.on if lie.is_about(asked)]
        told: Told | None = None
        for lie in lies:
            given = lie.asks(asked) if lie.asks is not None and told is None else asked
            asked, told = (asked, given) if isinstance(given, Told) else (given, told)
        if told is None:
            told = await self._answer(scope, asked, receive)
        if told.status < ERRORS:
            self._switches.count(asked)
        for lie in lies:
            if lie.tells is not None:
                told = lie.tells(asked, told)
        if asked.path.startswith("/container/") and any(lie.objects for lie in self._switches.on):
            ours, here = (f"{LOOPBACK}:{port}".encode() for port in (self._layout.ports.apiserver, self._port))
            told = replace(told, body=told.body.replace(ours, here))
        await _send(told, send)

    @property
    def _port(self) -> int:
        return self._layout.ports.front_tls

    async def _answer(self, scope: Scope, asked: Asked, receive: Receive) -> Told:
        """Return the front's own answer."""
        bodies = [asked.body]
        start: Message = {}
        body = bytearray()

        async def given() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            return await receive()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.extend(message.get("body", b""))

        headers = {key: value for key, value in asked.headers.items() if key != "transfer-encoding"}
        headers["content-length"] = str(len(asked.body))
        own = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
        query = urlencode(asked.query).encode()
        await self._app({**scope, "method": asked.method, "query_string": query, "headers": own}, given, send)
        told = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in start.get("headers", ())}
        return Told(start["status"], told, bytes(body))

    async def _kubernetes(self, request: Request) -> Response:
        """Return the API server's answer, its objects as the lies show them; what never ends goes through as it is."""
        headers = {key: value for key, value in request.headers.items() if key not in _HOP_BY_HOP}
        # Compressed answers could not be changed, and httpx asks for them by itself.
        headers["accept-encoding"] = "identity"
        sent = self._api.build_request(
            request.method,
            httpx.URL(path=request.url.path, query=request.url.query.encode()),
            headers=headers,
            content=await request.body(),
        )
        answer = await self._api.send(sent, stream=True)
        shown = {key: value for key, value in answer.headers.items() if key not in _HOP_BY_HOP}
        if any(request.query_params.get(name) in ("1", "true") for name in _ENDLESS):
            return StreamingResponse(_through(answer), answer.status_code, shown)
        body = await answer.aread()
        lies = [lie for lie in self._switches.on if lie.objects]
        return Response(shown_by(lies, request.url.path, body) if lies else body, answer.status_code, shown)


def shown_by(lies: Sequence[Lie], path: str, body: bytes) -> bytes:
    """Return an answer of the API server with the objects that lies are about as those show them."""
    parts = path.split("/")
    lies = [lie for lie in lies if not set(lie.objects.split()).isdisjoint(parts)]
    try:
        data: Any = json.loads(body) if lies else None
    except ValueError:
        return body
    if not isinstance(data, dict) or data.get("kind") == "Status":
        return body
    for lie in lies:
        if "items" in data:
            data["items"] = [lie.shows(item) if lie.shows else item for item in data["items"] or []]
            data["items"] = lie.lists(data["items"]) if lie.lists else data["items"]
        elif "metadata" in data and lie.shows:
            data = lie.shows(data)
    return json.dumps(data).encode() if lies else body


def _is_kubernetes(scope: Scope) -> bool:
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    first = scope["path"].removeprefix("/").partition("/")[0]
    return first in _KUBERNETES and not host.partition(":")[0].endswith(_DOMAIN)


async def _asked(scope: Scope, receive: Receive) -> Asked:
    """Return a request, with its service as the first part of its path."""
    request = Request(scope, receive)
    host = request.headers.get("host", "").partition(":")[0]
    path = unquote(request.scope.get("raw_path", scope["path"].encode()).split(b"?")[0].decode("latin-1"))
    service = host.removesuffix(_DOMAIN) if host.endswith(_DOMAIN) else ""
    if service and service not in ("storage", "www"):
        path = f"/{service}{path}"
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return Asked(request.method, path, query, dict(request.headers), await request.body())


async def _send(told: Told, send: Send) -> None:
    headers = {key: value for key, value in told.headers.items() if key not in _HOP_BY_HOP}
    headers["content-length"] = str(len(told.body))
    raw = [(key.title().encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": told.status, "headers": raw})
    await send({"type": "http.response.body", "body": told.body})


async def _through(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
