"""Passes connections that pods make to the gateway on to the sandbox's own servers on loopback."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from encamp.guard.streams import Connections, join

if TYPE_CHECKING:
    import socket


async def relay(listener: socket.socket, host: str, port: int) -> asyncio.Server:
    """Accept on ``listener`` and connect each client to ``host:port``."""
    return await asyncio.start_server(Connections(partial(_pass_on, host, port)), sock=listener)


async def _pass_on(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        far = await asyncio.open_connection(host, port)
    except OSError:
        writer.transport.abort()  # as refused as it can be: the client sees a reset
        return
    await join((reader, writer), far)
