"""The service as an ASGI app: the steps of each request, in their order.

Head, method, caller; only then is anything of a body read, and a place taken. Nothing of a caller's credential is kept
or written.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match

from encamp.api.answering import refusal, told
from encamp.api.batch import BATCH, MOST_ANSWER_BYTES, MOST_SECONDS, PATHS, answer_of, parts_of
from encamp.api.calls import CREATE, Calls
from encamp.api.connections import KNOWN
from encamp.api.errors import ApiError
from encamp.api.limits import ClientGoneError, read_body
from encamp.api.parameters import asked, head_of
from encamp.api.places import PlaceLimits, Places
from encamp.api.request import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from encamp.api.answering import Reply
    from encamp.api.batch import Part
    from encamp.api.caller import Caller
    from encamp.api.calls import Parts
    from encamp.api.parameters import Head

    Read = Callable[[], Awaitable[bytes]]

#: Batches of one caller that are at work, and that wait: each may hold megabytes.
BATCHES: Final = PlaceLimits(caller=4, line=12)


def make_app(parts: Parts) -> ASGIApp:
    """Return the service."""
    return Starlette(routes=[*parts.routes, _Everything(_Service(parts))])


class _Everything(BaseRoute):
    """Every path that is no other route's; those of ``Mount`` have no line breaks in them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match everything, and name nothing."""
        del scope
        return Match.FULL, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)


def _nobody() -> None:
    """Do nothing if no server waits to hear that a caller is known."""


@dataclass(frozen=True)
class _Sent:
    """A call as it came.

    Attributes:
        read: reads its body.
        check: refuses it once its caller is known, where it may not be carried out at all.
    """

    scope: Scope
    head: Head
    read: Read
    check: Callable[[], None] = _nobody


class _Service:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._calls = Calls(parts)
        # A cloud that answers slowly keeps creates waiting, and nobody who only reads.
        self._creates = Places(parts.places.limits)
        # Each of its parts takes a place of its own.
        self._batches = Places(BATCHES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = self._request(scope, (scope.get("client") or ("", 0))[0])
        carried_out: list[Request] = []
        # A caller's place is theirs until the answer is sent: what they do not read is kept in memory.
        async with contextlib.AsyncExitStack() as places:
            head = head_of(scope, request.headers)
            read = partial(read_body, receive, request.headers.get("content-length"))
            try:
                if head.verb == "POST" and head.path in PATHS:
                    reply = await self._batch(scope, request, read, places, carried_out)
                else:
                    carried_out.append(request)
                    reply = await self._reply(_Sent(scope, head, read), request, places)
            except ClientGoneError:
                # Nobody waits for an answer, and nothing was done.
                return
            answered = False
            try:
                await reply.send(send)
                answered = True
            finally:
                for one in carried_out:
                    if answered or not one.is_told:
                        await self._calls.sent(one, answered=answered and one.is_told)

    def _request(self, scope: Scope, peer: str) -> Request:
        headers = Headers(scope=scope)
        client = self._parts.addresses.client(peer, headers.getlist("x-forwarded-for"))
        return Request(datetime.now(UTC), time.monotonic(), headers, client)

    async def _reply(self, sent: _Sent, request: Request, places: contextlib.AsyncExitStack) -> Reply:
        """Return the answer to one call, whose body is read once its caller is known."""
        head, read = sent.head, sent.read
        try:
            method = self._calls.method(request, head)
            caller = await self._known(sent.scope, request)
            sent.check()
            kind = self._creates if method.id == CREATE else self._parts.places
            await places.enter_async_context(kind.callers.place(caller.email))
            fields = asked(head, await read() if head.form else b"")
            body = await read() if method.request is not None and not head.form else b""
            with kind.work.place():
                reply = await self._calls.reply(request, method, caller, fields, body)
        except ClientGoneError:
            raise
        except Exception as trouble:  # noqa: BLE001 - the edge where a bug becomes an answer
            reply = await self._calls.refused(request, told(trouble, f"{head.verb} before its work"))
        request.is_told = reply.is_told
        return reply

    async def _known(self, scope: Scope, request: Request) -> Caller:
        header = request.headers.get("authorization")
        request.caller = await self._parts.authenticator.caller(header, request.client)
        scope.get(KNOWN, _nobody)()
        return request.caller

    async def _batch(
        self,
        scope: Scope,
        request: Request,
        read: Read,
        places: contextlib.AsyncExitStack,
        carried_out: list[Request],
    ) -> Reply:
        """Return the answer to a batch.

        Its calls one after the other, each with a caller, places and an entry of its own.
        """
        request.method = BATCH
        try:
            caller = await self._known(scope, request)
            await places.enter_async_context(self._batches.callers.place(caller.email))
            parts = parts_of(await read(), request.headers)
        except ClientGoneError:
            raise
        except Exception as trouble:  # noqa: BLE001 - as of one call
            return await self._calls.refused(request, told(trouble, "a batch before its parts"))
        replies: list[tuple[bytes, Reply]] = []
        size = 0
        for part in parts:
            late = time.monotonic() - request.arrived > MOST_SECONDS
            reply = await self._of_part(part, request, carried_out, full=late or size > MOST_ANSWER_BYTES)
            replies.append((part.content_id, reply))
            size += len(reply.body)
        return answer_of(replies)

    async def _of_part(self, part: Part, around: Request, carried_out: list[Request], *, full: bool) -> Reply:
        if part.error is not None:
            return refusal(part.error)
        # The caller of the batch is that of all parts; only the credential may be another one.
        one = Request(datetime.now(UTC), time.monotonic(), Headers(scope=part.scope), around.client)
        carried_out.append(one)

        async def body() -> bytes:
            return part.body

        def check() -> None:
            if full:
                message = "The batch took too long, or its answer is too long; send this part again."
                raise ApiError("UNAVAILABLE", message, retry_after=1)

        async with contextlib.AsyncExitStack() as places:
            return await self._reply(_Sent(part.scope, head_of(part.scope, one.headers), body, check), one, places)
