"""An HTTP CONNECT proxy: Google's hosts lead to the front, every other host to itself where that is allowed.

Through it an unmodified client that knows ``https_proxy`` reaches the sandbox where it means Google, and pip
reaches its index. It never opens what it passes on.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.guard.streams import Connections, close, join
from encamp_sandbox.outbound.destinations import CLOSED, RefusedError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from encamp_sandbox.outbound.destinations import Destinations, Stream

    #: Told of every connection: the client's address, the target, and why it was refused, empty where it was not.
    Note = Callable[[str, str, str], None]

logger = logging.getLogger(__name__)

_GOOGLE: Final = (".googleapis.com", "metadata.google.internal", "accounts.google.com")
_HOST: Final = "127.0.0.1"
_HEAD_SECONDS: Final = 30
_CONNECT_SECONDS: Final = 20
_MOST_PORTS: Final = 65536


@dataclass(frozen=True)
class Front:
    """The front for Google's hosts.

    Attributes:
        port: where it listens on loopback.
        admits: whether a client, which is an address, may reach a port of Google's hosts.
    """

    port: int
    admits: Callable[[str, int], bool] = lambda _client, _port: True


class ConnectProxy:
    """The proxy's server.

    Args:
        listener: where it accepts connections.
        front: what stands for Google's hosts.
        destinations: which other hosts are reached.
        note: is told of every connection to another host.
    """

    def __init__(
        self, listener: socket.socket, front: Front, destinations: Destinations, note: Note | None = None
    ) -> None:
        self._listener = listener
        self._front = front
        self._destinations = destinations
        self._note = note
        self._server: asyncio.Server | None = None
        self._connections = Connections(self._accept)

    async def start(self) -> asyncio.Server:
        """Listen."""
        self._server = await asyncio.start_server(self._connections, sock=self._listener)
        return self._server

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
            await _answer(writer, "405 Method Not Allowed", "Allow: CONNECT\r\n")
            return
        client = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            there = await self._reached(*_parsed(target), client)
        except RefusedError as error:
            self._tell(client, target, str(error))
            await _answer(writer, "403 Forbidden", body=f"{target}: {error}\n")
            return
        except (OSError, UnicodeError) as error:
            self._tell(client, target, f"it cannot be reached: {error}")
            await _answer(writer, "502 Bad Gateway")
            return
        self._tell(client, target, "")
        writer.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
        await join((reader, writer), there)

    def _tell(self, client: str, target: str, refusal: str) -> None:
        if refusal:
            logger.info("%s: %s", target, refusal)
        if self._note is not None and (refusal or not _is_google(_parsed(target)[0])):
            self._note(client, target, refusal)

    async def _reached(self, host: str, port: int, client: str) -> Stream:
        """Connect. Raises RefusedError and OSError."""
        if _is_google(host):
            if not self._front.admits(client, port):
                raise RefusedError(CLOSED)
            return await asyncio.open_connection(_HOST, self._front.port)
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await self._destinations.connect(host, port, client)


def _is_google(host: str) -> bool:
    return host.endswith(_GOOGLE)


def _parsed(target: str) -> tuple[str, int]:
    """Return host and port of a CONNECT target. Raises ValueError."""
    host, _, port = target.rpartition(":")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < _MOST_PORTS:
        raise ValueError(f"{target!r} names no port")
    return host.strip("[]").lower().rstrip("."), int(port)


async def _answer(writer: asyncio.StreamWriter, status: str, headers: str = "", body: str = "") -> None:
    text = body.encode()
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + text)
    await writer.drain()
