"""Clients that are slow, silent, too many or talk nonsense: each wait for one has an end, and others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from encamp.api.connections import KNOWN, MOST_HEAD_BYTES, Limits
from encamp.api.gate import Gate
from encamp.api.listening import listen
from encamp.api.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.slow

GET = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: Long enough for a busy machine to send a request in one go, short enough to be waited for.
SOON = 0.2
#: A test that waits longer has failed.
LATEST = 20.0


class App:
    """Reads the body and answers its length; ``/large`` answers more than a socket holds, ``/held`` when it may.

    Callers of ``/held`` are known, all others are not.
    """

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            scope[KNOWN]()
        self.begun.set()
        got = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            got += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        if scope["path"] == "/held":
            await self.may.wait()
        body = b"x" * 32_000_000 if scope["path"] == "/large" else b"%d" % got
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})


class Serving:
    """A server, and connections to it."""

    def __init__(self, app: App, server: Server, port: int) -> None:
        self.app = app
        self.server = server
        self.port = port
        self._opened: list[asyncio.StreamWriter] = []

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._opened.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._opened:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def said(self, *parts: bytes) -> bytes:
        """All that is answered to ``parts`` until the server closes."""
        reader, writer = await self.open()
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()


@contextlib.asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Serving]:
    app, started = App(), asyncio.Event()
    all_limits = Limits(**limits)
    gate = Gate(app, ready=lambda: None, open_to_this_machine=True)
    listening = listen("127.0.0.1", 0, credentials=False)
    server = Server(gate, all_limits, started.set)
    task = asyncio.create_task(server.serve(sockets=list(listening.sockets)))
    try:
        await started.wait()
        found = Serving(app, server, listening.sockets[0].getsockname()[1])
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(found.close)
            yield found
    finally:
        server.end()
        app.may.set()
        await task


def run(test: Callable[[Serving], Awaitable[None]], **limits: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(LATEST), serving(**limits) as found:
            await test(found)

    asyncio.run(whole())


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def error(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    return found


@pytest.mark.parametrize("sent", [b"GET /v1/x HTTP/1.1\r\nHost: local", b"G", b"POST /v1/x HTTP/1.1\r\nA: b\r\n"])
def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(sent: bytes) -> None:
    async def test(found: Serving) -> None:
        answer = await found.said(sent)
        assert (status(answer), error(answer)["status"]) == (408, "DEADLINE_EXCEEDED")
        assert not found.app.begun.is_set()

    run(test, head_seconds=SOON)


def test_a_connection_that_asks_nothing_is_closed() -> None:
    async def test(found: Serving) -> None:
        with contextlib.suppress(ConnectionError):
            assert await found.said() == b""

    run(test, head_seconds=SOON)


def test_a_head_that_comes_byte_by_byte_gets_no_more_time() -> None:
    async def test(found: Serving) -> None:
        reader, writer = await found.open()

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in GET[:-2] + b"X: " + b"a" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(SOON / 10)

        dripping = asyncio.create_task(drip())
        with contextlib.suppress(ConnectionError):
            assert status(await reader.read()) == 408
        dripping.cancel()

    run(test, head_seconds=SOON)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def test(found: Serving) -> None:
        answer = await found.said(b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        assert (status(answer), error(answer)["status"]) == (408, "DEADLINE_EXCEEDED")

    run(test, body_seconds=SOON)


def test_an_answer_that_takes_no_body_does_not_keep_a_connection_open() -> None:
    async def test(found: Serving) -> None:
        head = b"HEAD /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"
        with contextlib.suppress(ConnectionError):
            assert b"DEADLINE" not in await found.said(head)

    run(test, body_seconds=SOON)


def test_who_reads_nothing_is_left() -> None:
    async def test(found: Serving) -> None:
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.closing(asking):
            await asyncio.to_thread(asking.connect, ("127.0.0.1", found.port))
            asking.sendall(GET.replace(b"/v1/x", b"/large"))
            await found.app.begun.wait()
            # uvicorn keeps the set, and tells nobody of its changes.
            while found.server.server_state.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    run(test, stalled_seconds=SOON)


def test_requests_follow_each_other_on_one_connection_also_at_once() -> None:
    async def test(found: Serving) -> None:
        reader, writer = await found.open()
        post = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
        writer.write(post + GET + post)
        for length in (b"3", b"0", b"3"):
            assert status(await reader.readuntil(b"\r\n\r\n")) == 200
            assert await reader.readexactly(1) == length
        # Longer than a head may take: a connection between two requests is idle, not slow.
        await asyncio.sleep(2 * SOON)
        writer.write(GET)
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200

    run(test, head_seconds=SOON)


def test_what_is_no_http_is_refused_in_the_services_form() -> None:
    async def test(found: Serving) -> None:
        long = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * MOST_HEAD_BYTES
        for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n", long):
            answer = await found.said(nonsense)
            assert (status(answer), error(answer)["code"]) == (400, 400)
        chunk = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n"
        assert status(await found.said(chunk)) == 400
        assert status(await found.said(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == 200

    run(test)


def test_idle_connections_make_room_and_busy_ones_do_not() -> None:
    async def test(found: Serving) -> None:
        reader, writer = await found.open()
        writer.write(GET.replace(b"/v1/x", b"/held"))
        await found.app.begun.wait()
        idle_reader, idle = await found.open()
        idle.write(GET)
        await idle_reader.readuntil(b"\r\n\r\n0")
        third_reader, third = await found.open()
        third.write(GET)
        await third_reader.readuntil(b"\r\n\r\n0")
        with contextlib.suppress(ConnectionError):
            assert await idle_reader.read() == b""
        third.write(GET.replace(b"/v1/x", b"/held"))
        await asyncio.sleep(SOON)
        # A connection is sent away before it says a word.
        answer = await found.said()
        assert status(answer) == 503
        assert b"retry-after: 1" in answer.lower()
        found.app.may.set()
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        assert status(await third_reader.readuntil(b"\r\n\r\n")) == 200

    run(test, connections=2)


def test_the_end_answers_what_has_come_and_closes_what_is_idle() -> None:
    async def test(found: Serving) -> None:
        idle_reader, idle = await found.open()
        idle.write(GET)
        await idle_reader.readuntil(b"\r\n\r\n0")
        reader, writer = await found.open()
        writer.write(GET.replace(b"/v1/x", b"/held"))
        await found.app.begun.wait()
        slow_reader, slow = await found.open()
        slow.write(GET[:10])
        await slow.drain()
        await asyncio.sleep(SOON)
        found.server.end()
        assert await idle_reader.read() == b""
        slow.write(GET[10:])
        answers = [await slow_reader.read()]
        found.app.may.set()
        answers.append(await reader.read())
        assert [(status(each), b"connection: close" in each.lower()) for each in answers] == [(200, True)] * 2
        with pytest.raises(ConnectionRefusedError):
            await found.open()

    run(test)
