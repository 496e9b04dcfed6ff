"""Ports that no other run and no other program has."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from encamp.errors import UsageError
from encamp.process import port_lock
from encamp.run.local import ports
from encamp.run.local.ports import FIRST_PORT, reserve


def free_start(count: int) -> int:
    """The first of so many ports in a row that are free."""
    for start in range(20000, 30000, count):
        with contextlib.suppress(UsageError), reserve(count, start):
            return start
    raise AssertionError("no free ports")


def test_two_runs_never_have_the_same_port() -> None:
    with ExitStack() as held, ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(reserve, [13] * 20))
        for run in runs:
            held.enter_context(run)
        numbers = [number for run in runs for number in run.numbers]
        assert len(set(numbers)) == len(numbers) == 260


def test_the_old_clients_ports_are_taken_where_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIRST_PORT == 27182
    start = free_start(4)
    monkeypatch.setattr(ports, "FIRST_PORT", start)
    with reserve(3) as first:
        assert first.numbers == (start, start + 1, start + 2)
        with reserve(3) as second:
            assert not set(second.numbers) & set(first.numbers)
    with reserve(3) as third:
        assert third.numbers == first.numbers


def test_ports_that_are_taken_are_all_named() -> None:
    start = free_start(4)
    with ExitStack() as held:
        for offset, address in ((1, "127.0.0.1"), (3, "0.0.0.0")):  # noqa: S104
            server = held.enter_context(socket.create_server((address, start + offset)))
            assert server.fileno() > 0
        with pytest.raises(UsageError, match=f"ports {start + 1}, {start + 3} are taken") as caught:
            reserve(4, start)
    assert caught.value.where == "--start-port"
    with reserve(4, start) as mine:
        assert mine.numbers == tuple(range(start, start + 4))
        with pytest.raises(UsageError, match=f"port {start + 3} is taken"):
            reserve(2, start + 3)


@pytest.mark.parametrize("start", [0, -1, 65535])
def test_ports_that_do_not_exist_are_refused(start: int) -> None:
    with pytest.raises(UsageError, match="do not lie between"):
        reserve(2, start)


def test_ports_lie_below_those_of_outgoing_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    lowest, highest = ports._bounds()
    monkeypatch.setattr(ports, "FIRST_PORT", highest - 10)
    with reserve(20) as mine:
        assert all(lowest <= number < highest for number in mine.numbers)


def test_a_locked_file_does_where_there_are_no_abstract_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_lock.sys, "platform", "darwin")
    start = free_start(2)
    with reserve(2, start), pytest.raises(UsageError, match="are taken"):
        reserve(2, start)
    with reserve(2, start) as again:
        assert again.numbers == (start, start + 1)
