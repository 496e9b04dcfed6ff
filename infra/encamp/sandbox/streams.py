"""Bytes from one connection to another, for the servers of ours that pass on what they do not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 1 << 16


async def join(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Pass everything on in both directions until both sides have ended.

    An end of one side is an end of the other's input, a reset a reset.
    """
    await asyncio.gather(_copy(one[0], other[1]), _copy(other[0], one[1]))


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, which may be broken already."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()
