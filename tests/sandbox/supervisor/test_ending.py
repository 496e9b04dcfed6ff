"""When a sandbox ends by itself."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from encamp.errors import UsageError
from encamp_sandbox.layout import Layout
from encamp_sandbox.state import creation_time
from encamp_sandbox.supervisor.__main__ import WITH_VARIABLE, lives_with, stop_unneeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "sb")
    made.run.mkdir(parents=True)
    return made


@pytest.fixture
def companion() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until somebody ends it."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


async def _ends(layout: Layout, companion: subprocess.Popen[bytes] | None) -> asyncio.Event:
    stop = asyncio.Event()
    with_whom = (companion.pid, creation_time(companion.pid)) if companion else None
    watching = asyncio.create_task(stop_unneeded(layout, stop, with_whom, look_seconds=0.01))
    await asyncio.sleep(0.1)
    assert not watching.done()
    if companion is None:
        layout.run.rmdir()
    else:
        companion.kill()
    await asyncio.wait_for(watching, 10)
    return stop


def test_it_ends_with_the_process_that_it_lives_with(
    layout: Layout, companion: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert asyncio.run(_ends(layout, companion)).is_set()
    assert f"process {companion.pid} has ended" in caplog.text


def test_it_ends_when_its_folder_is_gone(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert asyncio.run(_ends(layout, None)).is_set()
    assert f"{layout.root} is gone" in caplog.text


@pytest.mark.parametrize("asked", ["0", "-1", "x", "99999999"])
def test_whom_it_lives_with_has_to_live(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITH_VARIABLE, asked)
    with pytest.raises(UsageError, match="no process has the id"):
        lives_with()
