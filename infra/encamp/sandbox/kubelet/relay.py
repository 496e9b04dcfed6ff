"""Passes connections that pods make to the gateway on to the sandbox's own servers on loopback."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_CHUNK = 1 << 16


async def relay(listener: socket.socket, host: str, port: int) -> asyncio.Server:
    """Accept on ``listener`` and connect each client to ``host:port``."""
    return await asyncio.start_server(partial(_pass_on, host, port), sock=listener)


async def _pass_on(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(host, port)
    except OSError:
        writer.transport.abort()  # as refused as it can be: the client sees a reset
        return
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    for end in (writer, far_writer):
        end.close()
        with suppress(OSError):
            await end.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()
