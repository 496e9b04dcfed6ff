"""Connections that pods make to networks outside of the cluster without a proxy, as unmodified clients do.

The nodes' packet filter leads them here. Each is accepted before its destination answers: where that does not, or where
this machine lets no pod go, the client sees a reset.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final

from encamp.guard.streams import Connections, close, join
from encamp_sandbox.outbound.destinations import RefusedError

if TYPE_CHECKING:
    from encamp_sandbox.outbound.destinations import Destinations
    from encamp_sandbox.outbound.proxy import Note

#: linux/netfilter_ipv4.h: where a connection meant to go that was redirected.
_ORIGINAL_DESTINATION: Final = 80
_ADDRESS: Final = struct.Struct(">2xH4s8x")
_CONNECT_SECONDS: Final = 20


class DirectConnections:
    """Connects redirected connections to where they meant to go.

    Args:
        destinations: which are reached.
        note: is told of every connection.
    """

    def __init__(self, destinations: Destinations, note: Note) -> None:
        self._destinations = destinations
        self._note = note

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections."""
        return await asyncio.start_server(Connections(self._accept), sock=listener)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            host, port = _meant(writer)
            target = f"{host}:{port}"
        except OSError:  # it came to this very port
            writer.transport.abort()
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                far = await self._destinations.connect(host, port, client)
        except (RefusedError, OSError) as error:
            self._note(client, target, str(error) or "it does not answer")
            writer.transport.abort()
            return
        self._note(client, target, "")
        try:
            await join((reader, writer), far)
        finally:
            await close(writer)


def _meant(writer: asyncio.StreamWriter) -> tuple[str, int]:
    connection = writer.get_extra_info("socket")
    port, address = _ADDRESS.unpack(connection.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, _ADDRESS.size))
    return socket.inet_ntoa(address), port
