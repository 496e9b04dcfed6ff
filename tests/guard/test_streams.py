"""Connections that a server of ours passes on: none outlives it."""

from __future__ import annotations

import asyncio
from typing import Any

from encamp.guard.streams import Connections, join


class Writer:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    async def wait_closed(self) -> None:
        await asyncio.Event().wait()

    def can_write_eof(self) -> bool:
        return False


async def for_ever(_: Any, __: Any) -> None:
    await asyncio.Event().wait()


def test_a_connection_that_was_only_just_accepted_is_cut_and_closed_too() -> None:
    async def cut(*, begun: bool) -> bool:
        connections, writer = Connections(for_ever), Writer()
        connections(asyncio.StreamReader(), writer)  # type: ignore[arg-type]
        if begun:
            await asyncio.sleep(0)
        await connections.cut()
        return writer.closed

    assert asyncio.run(cut(begun=True))
    assert asyncio.run(cut(begun=False))


def test_both_sides_are_closed_though_the_wait_for_one_of_them_is_cut_short() -> None:
    async def cut() -> tuple[bool, bool]:
        ends = [(asyncio.StreamReader(), Writer()) for _ in range(2)]
        for reader, _ in ends:
            reader.feed_eof()
        joined = asyncio.ensure_future(join(*ends))  # type: ignore[arg-type]
        await asyncio.wait({joined}, timeout=0.05)
        joined.cancel()
        await asyncio.wait({joined})
        return ends[0][1].closed, ends[1][1].closed

    assert asyncio.run(cut()) == (True, True)
