"""The keeper with small servers of the test's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox import state
from encamp_sandbox.ports import Ports
from encamp_sandbox.service import Probe, Service
from encamp_sandbox.state import is_alive
from encamp_sandbox.supervisor import keeper as keeper_module
from encamp_sandbox.supervisor.keeper import Keeper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

from contextlib import asynccontextmanager

#: Every test of it starts processes.
pytestmark = pytest.mark.slow

_SERVER = (
    "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.{}).serve_forever()"
)
_ANSWERS = _SERVER.format("SimpleHTTPRequestHandler")
_REFUSES = _SERVER.format("BaseHTTPRequestHandler")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_BACK_OFF_SECONDS", (0.05,))


def _service(code: str, *, path: str | None = "/") -> Service:
    port = Ports.choose().front
    return Service("server", (sys.executable, "-c", code, str(port)), (Probe(port, path),), grace_seconds=2)


@asynccontextmanager
async def _kept(service: Service, log: Path) -> AsyncIterator[tuple[Keeper, list[str]]]:
    states: list[str] = []
    kept = Keeper(service, log, dict(os.environ), lambda: states.append(kept.state.state))
    running = asyncio.create_task(kept.run())
    try:
        yield kept, states
    finally:
        await kept.stop()
        await running
        assert kept.state.state == state.STOPPED
        assert not is_alive(kept.state.pid, kept.state.created)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the processes tell nobody but the state
            await asyncio.sleep(0.02)


def _run(manager: AbstractAsyncContextManager[tuple[Keeper, list[str]]], act: Callable[..., object]) -> None:
    async def body() -> None:
        async with manager as (kept, states):
            result = act(kept, states)
            if asyncio.iscoroutine(result):
                await result

    asyncio.run(body())


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    async def act(kept: Keeper, states: list[str]) -> None:
        await _until(lambda: kept.state.state == state.READY)
        first = kept.state.pid
        os.kill(first, signal.SIGKILL)
        await _until(lambda: kept.state.state == state.READY and kept.state.pid != first)
        assert kept.state.message == "server was ended by SIGKILL"
        assert kept.state.starts == 2
        assert states == ["starting", "ready", "restarting", "starting", "ready"]

    _run(_kept(_service(_ANSWERS), tmp_path / "log"), act)
    assert "start 2" in (tmp_path / "log").read_text()


def test_a_process_that_ends_again_and_again_is_failing_and_still_tried(tmp_path: Path) -> None:
    async def act(kept: Keeper, states: list[str]) -> None:
        await _until(lambda: kept.state.starts >= 5)
        assert states[-1] == state.FAILING
        assert kept.state.message == "server exited with 7"

    _run(_kept(_service("print('why'); raise SystemExit(7)"), tmp_path / "log"), act)
    assert "why" in (tmp_path / "log").read_text()


def test_one_that_runs_but_does_not_answer_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_START_SECONDS", 0.5)

    async def act(kept: Keeper, states: list[str]) -> None:
        await _until(lambda: kept.state.starts >= 2)
        assert state.READY not in states
        assert "did not answer" in kept.state.message

    _run(_kept(_service(_REFUSES), tmp_path / "log"), act)


def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async def act(kept: Keeper, _: list[str]) -> None:
        await _until(lambda: kept.state.state == state.FAILING)
        assert "/nowhere/server" in kept.state.message

    _run(_kept(Service("server", ("/nowhere/server",), ()), tmp_path / "log"), act)


def test_stopping_while_it_waits_to_start_again_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_BACK_OFF_SECONDS", (60.0,))

    async def act(kept: Keeper, _: list[str]) -> None:
        await _until(lambda: kept.state.state == state.RESTARTING)

    _run(_kept(_service("raise SystemExit(1)"), tmp_path / "log"), act)
    assert "start 2" not in (tmp_path / "log").read_text()
