"""The service as an ASGI app: what is done for each request, and in which order.

Head, method, caller; only then is anything of a body read, and a place taken. Nothing of a caller's credential is kept
or written.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match

from encamp.api.answering import told
from encamp.api.calls import CREATE, Calls
from encamp.api.connections import KNOWN
from encamp.api.limits import ClientGoneError, read_body
from encamp.api.parameters import asked, head_of
from encamp.api.places import Places
from encamp.api.request import Request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from encamp.api.answering import Reply
    from encamp.api.calls import Parts


def make_app(parts: Parts) -> ASGIApp:
    """The service."""
    return Starlette(routes=[*parts.routes, _Everything(_Service(parts))])


class _Everything(BaseRoute):
    """Every path that is no other route's; those of ``Mount`` have no line breaks in them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """All of it, and nothing is named."""
        del scope
        return Match.FULL, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the service answer."""
        await self._app(scope, receive, send)


class _Service:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._calls = Calls(parts)
        # A cloud that answers slowly keeps creates waiting, and nobody who only reads.
        self._creates = Places(parts.places.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        peer = (scope.get("client") or ("", 0))[0]
        client = self._parts.addresses.client(peer, headers.getlist("x-forwarded-for"))
        request = Request(datetime.now(UTC), time.monotonic(), headers, client)
        # A caller's place is theirs until the answer is sent: what they do not read is kept in memory.
        async with contextlib.AsyncExitStack() as places:
            try:
                reply = await self._reply(scope, receive, request, places)
            except ClientGoneError:
                # Nobody waits for an answer, and nothing was done.
                return
            answered = False
            try:
                await reply.send(send)
                answered = reply.is_told
            finally:
                if answered or not reply.is_told:
                    await self._calls.sent(request, answered=answered)

    async def _reply(
        self, scope: Scope, receive: Receive, request: Request, places: contextlib.AsyncExitStack
    ) -> Reply:
        head = head_of(scope, request.headers)
        length = request.headers.get("content-length")
        try:
            method = self._calls.method(request, head)
            caller = await self._parts.authenticator.caller(request.headers.get("authorization"), request.client)
            request.caller = caller
            scope.get(KNOWN, _nobody)()
            kind = self._creates if method.id == CREATE else self._parts.places
            await places.enter_async_context(kind.callers.place(caller.email))
            wish = asked(head, await read_body(receive, length) if head.form else b"")
            body = await read_body(receive, length) if method.request is not None and not head.form else b""
            with kind.work.place():
                return await self._calls.reply(request, method, caller, wish, body)
        except ClientGoneError:
            raise
        except Exception as trouble:  # noqa: BLE001 - the edge where a bug becomes an answer
            return await self._calls.refused(request, told(trouble, f"{scope['method']} before its work"))


def _nobody() -> None:
    """Where no server waits to hear that a caller is known."""
