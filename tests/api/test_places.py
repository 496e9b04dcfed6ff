"""How many requests are at work at once: of one caller, of all, and what a probe is told when nothing moves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import pytest
from tests.api.test_strangers import serving
from tests.api.test_wire import JOBS, Wire, ask, request
from tests.api.world import ADMIN, DEVELOPER, job, world

from encamp.api.errors import ApiError
from encamp.api.places import STUCK_SECONDS, Lines, PlaceLimits, Work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_caller_waits_in_line_for_their_own_places_alone() -> None:
    async def look() -> None:
        lines = Lines(places=2, line=1, seconds=30)
        may = asyncio.Event()
        held: list[str] = []

        async def work(who: str) -> None:
            async with lines.place(who):
                held.append(who)
                await may.wait()

        tasks = [asyncio.create_task(work("ana")) for _ in range(3)]
        await asyncio.sleep(0)
        assert held == ["ana", "ana"]
        with pytest.raises(ApiError) as caught:
            async with lines.place("ana"):
                pass
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == ("RESOURCE_EXHAUSTED", 429, 1)
        async with lines.place("bob"):
            pass
        may.set()
        await asyncio.gather(*tasks)
        assert held == ["ana", "ana", "ana"]

    asyncio.run(look())


def test_a_line_that_does_not_move_is_left() -> None:
    async def look() -> None:
        lines = Lines(places=1, line=1, seconds=0.01)
        async with lines.place("ana"):
            with pytest.raises(ApiError) as caught:
                async with lines.place("ana"):
                    pass
            assert caught.value.status == "RESOURCE_EXHAUSTED"
        # Who left takes no place with them.
        async with lines.place("ana"):
            pass

    asyncio.run(look())


def test_shared_places_that_are_all_taken_are_told_and_noticed_when_none_comes_free() -> None:
    clock = Clock()
    work = Work(2, clock)
    with work.place(), contextlib.ExitStack() as second:
        second.enter_context(work.place())
        with pytest.raises(ApiError) as caught, work.place():
            pass
        assert (caught.value.status, caught.value.retry_after) == ("UNAVAILABLE", 1)
        clock.now += STUCK_SECONDS
        work.check()
        clock.now += 0.1
        with pytest.raises(TimeoutError):
            work.check()
        second.close()
        work.check()
        # Full again, but it moved.
        second.enter_context(work.place())
        clock.now += STUCK_SECONDS
        work.check()


class Slow:
    """Looks at jobs before they are created, for as long as it is told to."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, _: object) -> None:
        self.begun.release()
        self.may.wait(60)


@pytest.fixture
def slow() -> Iterator[Slow]:
    found = Slow()
    yield found
    found.may.set()


@pytest.mark.slow
def test_one_caller_keeps_no_other_from_their_answer(tmp_path: Path, slow: Slow) -> None:
    limits = PlaceLimits(work=8, caller=4, line=2, line_seconds=30)
    with (
        world(tmp_path, look=slow, places=limits) as found,
        serving(found) as address,
        contextlib.ExitStack() as opened,
    ):
        greedy = [opened.enter_context(Wire(address)) for _ in range(10)]
        for number, wire in enumerate(greedy):
            wire.send(request("POST", JOBS, job(f"greedy_{number}"), authorization=f"Bearer {DEVELOPER}"))
        for _ in range(4):
            assert slow.begun.acquire(timeout=30)
        assert ask(address, request("GET", JOBS, authorization=f"Bearer {ADMIN}")).code == 200
        slow.may.set()
        codes = sorted(wire.reply().code for wire in greedy)
    # Four at work, two in line; four were told to come again.
    assert codes == [200] * 6 + [429] * 4


@pytest.mark.slow
def test_bodies_that_do_not_come_take_no_shared_place(tmp_path: Path) -> None:
    """Whoever is known and sends slowly keeps places of their own, and nobody else's."""
    limits = PlaceLimits(work=2, caller=4)
    with world(tmp_path, places=limits) as found, serving(found) as address, contextlib.ExitStack() as opened:
        for _ in range(4):
            wire = opened.enter_context(Wire(address))
            wire.send(request("POST", JOBS, b"", content_length="1000", authorization=f"Bearer {DEVELOPER}"))
        assert ask(address, request("GET", JOBS, authorization=f"Bearer {ADMIN}")).code == 200
