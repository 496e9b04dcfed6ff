"""Connections that a server of ours passes on: none outlives it."""

from __future__ import annotations

import asyncio
from typing import Any

from encamp.guard.streams import Connections


class Writer:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


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
