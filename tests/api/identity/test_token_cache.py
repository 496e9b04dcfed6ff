"""The cache of verified tokens: expiry, bounds, and one question for many callers."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest
from tests.api.identity.issuer import World, info

from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.known_tokens import KnownTokens


def test_tokens_are_known_for_minutes_and_never_beyond_their_end() -> None:
    world = World(tokeninfo=info(expires_in="1800"))

    async def work(*steps: float) -> list[int]:
        identity, seen = world.identity(), list[int]()
        for step in steps:
            world.offset += step
            await identity.caller("Bearer ya29.t")
            seen.append(len(world.asked))
        world.asked.clear()
        return seen

    assert asyncio.run(work(0, 290, 20)) == [1, 1, 2]
    world.tokeninfo = info(expires_in="60")
    assert asyncio.run(work(0, 55, 10)) == [1, 1, 2]


def test_refusals_are_known_for_seconds_and_outages_not_at_all() -> None:
    world = World(tokeninfo=lambda _: httpx.Response(400))

    async def work(*steps: float) -> list[int]:
        identity = world.identity()
        for step in steps:
            world.offset += step
            with pytest.raises(ApiError):
                await identity.caller("Bearer ya29.t")
        return [len(world.asked)]

    assert asyncio.run(work(0, 5, 6)) == [2]
    world.asked.clear()
    world.tokeninfo = lambda _: httpx.Response(429)
    assert asyncio.run(work(0, 0, 0)) == [3]


def test_fifty_at_once_ask_once_and_one_that_goes_away_takes_nobody_along() -> None:
    asked: list[str] = []

    async def ask(one: str) -> tuple[Caller, float]:
        asked.append(one)
        await asyncio.sleep(0.01)
        return Caller("ana@example.com", frozenset()), time.time() + 60

    async def work() -> list[Caller | BaseException]:
        known = KnownTokens(ask)
        tasks = [asyncio.create_task(known.caller("t")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = asyncio.run(work())
    assert isinstance(first, asyncio.CancelledError)
    assert {one.email for one in others if isinstance(one, Caller)} == {"ana@example.com"}
    assert (len(others), asked) == (49, ["t"])


def test_no_more_tokens_are_known_than_there_is_room_for() -> None:
    asked: list[str] = []

    async def ask(one: str) -> tuple[Caller, float]:
        asked.append(one)
        if one.startswith("bad"):
            raise ApiError("UNAUTHENTICATED", "no")
        return Caller(one, frozenset()), time.time() + 60

    async def work() -> None:
        known = KnownTokens(ask, most=3)
        for one in ("a", "b", "c", "a", "bad1", "bad2", "bad3", "bad4", "d", "a", "b"):
            try:
                await known.caller(one)
            except ApiError:
                assert one.startswith("bad")
        assert len(known._known._values) == 3
        assert len(known._refused._values) == 3

    asyncio.run(work())
    # What was used last is kept, and strangers push nobody out.
    assert asked == ["a", "b", "c", "bad1", "bad2", "bad3", "bad4", "d", "b"]
