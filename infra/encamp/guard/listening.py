"""A listening socket that hands out connections of one user alone.

It is a socket like any other: asyncio, uvicorn and ``ssl`` accept from it, so that whoever is refused gets no byte, not
even of a TLS handshake. Where the system does not say whose a connection is (macOS), it lets everybody in.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from encamp.guard import peers

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)
_BACKLOG: Final = 256
LOOPBACK: Final = "127.0.0.1"


class GuardedSocket(socket.socket):
    """Accepts connections that the user of this process made, and closes all others at once."""

    whose: Callable[[socket.socket], int | None] = staticmethod(peers.peer_uid)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept one connection.

        Raises:
            ConnectionAbortedError: it was somebody else's and is closed; servers go on with the next one.
        """
        connection, address = super().accept()
        if peers.can_tell() and (uid := self.whose(connection)) != os.getuid():
            connection.close()
            _LOG.warning("a connection of user %s was refused", "nobody knows" if uid is None else uid)
            raise ConnectionAbortedError(f"a connection from {address} is not this user's")
        return connection, address


def guarded(sock: socket.socket) -> GuardedSocket:
    """Take over a bound socket; the given object is empty afterwards."""
    return GuardedSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())


def listen(port: int, host: str = LOOPBACK) -> GuardedSocket:
    """Listen on a TCP port of this machine, 0 for a free one. Raises OSError."""
    sock = GuardedSocket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
