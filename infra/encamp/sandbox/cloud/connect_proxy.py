"""An HTTP CONNECT proxy: Google's hosts lead to the front, every other host to itself.

Through it an unmodified client that knows ``https_proxy`` reaches the sandbox where it means Google, and pip
reaches its index. It never opens what it passes on.
"""

from __future__ import annotations

import asyncio
import logging

from encamp.guard.listening import listen
from encamp.guard.streams import Connections, close, join

logger = logging.getLogger(__name__)

_GOOGLE = (".googleapis.com", "metadata.google.internal")
_HOST = "127.0.0.1"
_HEAD_SECONDS = 30
_CONNECT_SECONDS = 20


class ConnectProxy:
    """The proxy's server.

    Args:
        port: where it listens on loopback.
        front_tls: port of the front that stands for Google's hosts on 443.
    """

    def __init__(self, port: int, front_tls: int) -> None:
        self._port = port
        self._front_tls = front_tls
        self._server: asyncio.Server | None = None
        self._connections = Connections(self._accept)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connections, sock=listen(self._port))

    async def stop(self) -> None:
        """Listen no more and cut what runs."""
        if self._server:
            self._server.close()
        await self._connections.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            logger.info("a connection ended: %s", error)
        finally:
            await close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nAllow: CONNECT\r\n\r\n")
            await writer.drain()
            return
        host, port = self.destination(target)
        try:
            there = await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            logger.info("%s cannot be reached: %s", target, error)
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
        try:
            await join((reader, writer), there)
        finally:
            await close(there[1])

    def destination(self, target: str) -> tuple[str, int]:
        """Where a CONNECT target leads to."""
        host, _, port = target.rpartition(":")
        name = host.strip("[]").lower().rstrip(".")
        if name.endswith(_GOOGLE):
            return _HOST, self._front_tls
        return name, int(port)
