"""The way from the API server to pods: it asks for it by CONNECT, as GKE's does of Konnectivity.

Addresses of pods exist in the network that the kubelet made for them, and nowhere else on this machine.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from encamp.errors import EncampError
from encamp.guard.streams import Connections, close, join

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    Dial = Callable[[str, int], Awaitable[Connection]]

_LOG = logging.getLogger(__name__)
_GOOD, _BAD, _GONE = "200 OK", "400 Bad Request", "502 Bad Gateway"


async def serve_egress(path: Path, dial: Dial) -> asyncio.Server:
    """Serve CONNECT on a unix socket; ``dial`` connects to an address and port."""
    await asyncio.to_thread(path.unlink, missing_ok=True)
    return await asyncio.start_unix_server(Connections(partial(_connect, dial)), path)


async def _connect(dial: Dial, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        asked = await _asked(reader)
        if asked is None:
            writer.write(_answer(_BAD))
        else:
            await _pass_on(dial, asked, (reader, writer))
    except OSError as error:
        _LOG.info("the API server went away: %s", error)
    finally:
        await close(writer)


async def _pass_on(dial: Dial, asked: tuple[str, int], near: Connection) -> None:
    writer = near[1]
    try:
        far = await dial(*asked)
    except (OSError, EncampError) as error:
        _LOG.info("%s:%d is not reached: %s", *asked, error)
        writer.write(_answer(_GONE))
        return
    writer.write(_answer(_GOOD))
    await join(near, far)


async def _asked(reader: asyncio.StreamReader) -> tuple[str, int] | None:
    """Read a request; gives address and port, None if it is no CONNECT."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    host, _, port = (words[1] if len(words) == len(("CONNECT", "target", "version")) else "").rpartition(":")
    if words[0] != "CONNECT" or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)


def _answer(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n\r\n".encode()
