"""Servers behind the guard, with a look-up that names other users."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from encamp.guard import listening
from encamp.guard.passage import Passage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def someone(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Users of the next connections, the last one of all further ones."""
    users: list[int | None] = [os.getuid()]

    def whose(_: socket.socket) -> int | None:
        return users.pop(0) if len(users) > 1 else users[0]

    monkeypatch.setattr(listening.GuardedSocket, "whose", staticmethod(whose))
    monkeypatch.setattr(listening.peers, "can_tell", lambda: True)
    return users


async def _hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def _read(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("stranger", [os.getuid() + 1, None, 0 if os.getuid() else 1])
def test_a_stranger_gets_no_byte_and_the_next_is_served(someone: list[int | None], stranger: int | None) -> None:
    someone[:] = [stranger, stranger, os.getuid()]

    async def work() -> list[bytes]:
        sock = listening.listen(0)
        async with await asyncio.start_server(_hello, sock=sock):
            return [await _read(sock.getsockname()[1]) for _ in range(3)]

    assert asyncio.run(work()) == [b"", b"", b"hello"]


def test_a_stranger_gets_no_tls_handshake(someone: list[int | None]) -> None:
    someone[:] = [os.getuid() + 1]

    async def work() -> None:
        sock = listening.listen(0)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        async with await asyncio.start_server(_hello, sock=sock, ssl=context):
            assert await _read(sock.getsockname()[1]) == b""

    asyncio.run(work())


def test_without_a_way_to_tell_everybody_is_let_in(someone: list[int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    someone[:] = [None]
    monkeypatch.setattr(listening.peers, "can_tell", lambda: False)

    async def work() -> bytes:
        sock = listening.listen(0)
        async with await asyncio.start_server(_hello, sock=sock):
            return await _read(sock.getsockname()[1])

    assert asyncio.run(work()) == b"hello"


def test_a_bound_socket_is_taken_over() -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    with listening.guarded(bound) as sock:
        assert bound.fileno() == -1
        assert sock.getsockname()[1] == port


class _Peers(grpc.GenericRpcHandler):
    """Answers every call with its peer's name."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        del handler_call_details

        async def answer(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return context.peer().encode()

        handler: Any = grpc.unary_unary_rpc_method_handler
        return handler(answer)


def test_grpc_behind_a_passage_tells_its_peers_apart(someone: list[int | None], tmp_path: Path) -> None:
    async def ask(port: int) -> bytes:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            return await channel.unary_unary("/any/Method")(b"")

    async def work() -> None:
        passage = Passage(folder=tmp_path / "sockets")
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([_Peers()])
        server.add_insecure_port(passage.address)
        await server.start()
        await passage.start()
        try:
            first, second = await ask(passage.port), await ask(passage.port)
            assert first != second
            someone[:] = [os.getuid() + 1]
            with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
                await ask(passage.port)
        finally:
            await server.stop(None)
            await passage.stop()
        assert not (tmp_path / "sockets").exists()

    asyncio.run(work())
