"""Bytes from one connection to another, for the servers of ours that pass on what they do not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_CHUNK = 1 << 16


class Connections:
    """The callback of ``asyncio.start_server``: serves each connection, and holds what serves it until it has ended.

    The loop itself does not: with the client gone, what still waits for the other side would be collected as garbage.

    Args:
        serve: one connection's coroutine.
    """

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Future[None]] = set()

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which is known from now on: also one that was only just accepted can be cut."""
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._ended(task, writer))

    def _ended(self, task: asyncio.Future[None], writer: asyncio.StreamWriter) -> None:
        """Close the connection, whose task may never have begun."""
        self._tasks.discard(task)
        writer.close()

    async def cut(self) -> None:
        """End every connection that is being served."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def join(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Pass everything on in both directions until both sides have ended, and close both.

    An end of one side is an end of the other's input, a reset a reset.
    """
    try:
        await asyncio.gather(_copy(one[0], other[1]), _copy(other[0], one[1]))
    finally:
        await close(one[1], other[1])


async def close(*writers: asyncio.StreamWriter) -> None:
    """Close connections, which may be broken already: each of them, also where the wait for another is cut short."""
    for writer in writers:
        writer.close()
    for writer in writers:
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
