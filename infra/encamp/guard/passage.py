"""A guarded TCP port in front of a unix socket, for servers that accept connections themselves, such as gRPC's.

The unix socket lies in a folder that only its owner enters. Each connection to it is bound to a name of its own, by
which the server tells its peers apart: gRPC shows it as the peer.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.guard.listening import listen
from encamp.guard.sockets import temporary_folder
from encamp.guard.streams import Connections, join

if TYPE_CHECKING:
    from encamp.guard.listening import GuardedSocket

_SERVER = "server"


class Passage:
    """Passes connections of this user on to ``address``, which the server behind it listens on.

    Args:
        port: TCP port on 127.0.0.1; 0 takes a free one.
        folder: for the unix socket, emptied now; a temporary one if None.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int = 0, folder: Path | None = None) -> None:
        self._socket: GuardedSocket = listen(port)
        self.port: int = self._socket.getsockname()[1]
        self._folder = _emptied(folder) if folder else _made()
        self._connections = Connections(self._pass_on)
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """The server's listening address in gRPC's form."""
        return f"unix:{self._folder / _SERVER}"

    async def start(self) -> None:
        """Accept connections, in the running event loop."""
        self._server = await asyncio.start_server(self._connections, sock=self._socket)

    def stop_accepting(self) -> None:
        """Take no more connections."""
        if self._server:
            self._server.close()
        self._socket.close()

    async def stop(self) -> None:
        """Take no more connections, cut those that there are, and remove the unix socket."""
        self.stop_accepting()
        await self._connections.cut()
        self.forget()

    def forget(self) -> None:
        """Remove the unix socket and its folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_unix_connection(sock=await self._dialled())
        except OSError:
            writer.transport.abort()
            return
        await join((reader, writer), far)

    async def _dialled(self) -> socket.socket:
        dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = self._folder / secrets.token_hex(4)
        try:
            dialled.setblocking(False)
            dialled.bind(str(name))
            await asyncio.get_running_loop().sock_connect(dialled, str(self._folder / _SERVER))
        except BaseException:
            dialled.close()
            raise
        finally:
            with suppress(OSError):
                name.unlink()
        return dialled


def _made() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"encamp-{os.getuid()}-", dir=temporary_folder()))


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder
