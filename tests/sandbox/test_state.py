from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox import status
from encamp_sandbox.layout import Layout
from encamp_sandbox.state import (
    MARK,
    ProcessState,
    SandboxState,
    creation_time,
    find,
    is_alive,
    lock,
    read_state,
    survivors,
    write_state,
)
from encamp_sandbox.status import sandbox_status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.create(tmp_path)


@pytest.fixture
def sleeper(layout: Layout) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(_SLEEP, env={**os.environ, MARK: str(layout.root)}) as process:
        yield process
        process.kill()


def _state(pid: int, created: float, **processes: ProcessState) -> SandboxState:
    return SandboxState(pid, created, time.time(), processes)


def test_what_is_written_is_read(layout: Layout) -> None:
    state = _state(1, 2.0, etcd=ProcessState("ready", 3, 4.0, 5.0, 6, "said"))
    write_state(layout, state)
    assert read_state(layout) == state


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 1, "processes": {"a": {"unknown": 1}}}', "\x00"])
def test_a_state_that_cannot_be_read_is_none(layout: Layout, content: str) -> None:
    layout.state_file.write_text(content)
    assert read_state(layout) is None


def test_an_id_that_belongs_to_somebody_else_now_is_not_ours(sleeper: subprocess.Popen[bytes]) -> None:
    created = creation_time(sleeper.pid)
    assert is_alive(sleeper.pid, created)
    assert not is_alive(sleeper.pid, created - 60)
    assert find(sleeper.pid, created + 60) is None
    assert not is_alive(0, 0.0)


def test_survivors_are_found_by_their_mark_with_their_children(
    layout: Layout, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert [process.pid for process in survivors(layout)] == [sleeper.pid]
    assert survivors(Layout(tmp_path / "another")) == []


def test_an_ended_process_is_no_survivor_before_it_is_waited_for(
    layout: Layout, sleeper: subprocess.Popen[bytes]
) -> None:
    sleeper.kill()
    deadline = time.monotonic() + 10
    while survivors(layout) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert survivors(layout) == []
    assert not is_alive(sleeper.pid, creation_time(sleeper.pid))


def test_a_lock_is_one_holders(tmp_path: Path) -> None:
    with lock(tmp_path / "lock"), pytest.raises(BlockingIOError), lock(tmp_path / "lock"):
        pytest.fail("two hold it")
    with lock(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()


def test_the_status_of_a_sandbox_that_never_ran(layout: Layout) -> None:
    found = sandbox_status(layout)
    assert (found.state, found.advice) == ("stopped", "encamp sandbox up")
    assert {process.name for process in found.processes} >= {"etcd", "kube-apiserver", "cloud", "kubelet"}
    assert {process.state for process in found.processes} == {"stopped"}


def test_the_status_after_the_supervisor_was_killed_says_what_to_do(
    layout: Layout, sleeper: subprocess.Popen[bytes]
) -> None:
    alive = ProcessState("ready", sleeper.pid, creation_time(sleeper.pid), time.time(), 1)
    write_state(layout, _state(sleeper.pid, 1.0, etcd=alive, jobset=ProcessState("ready", sleeper.pid, 1.0)))
    found = sandbox_status(layout)
    assert found.state == "failed"
    assert "encamp sandbox up" in found.advice
    states = {process.name: (process.state, process.advice) for process in found.processes}
    assert states["etcd"] == ("failed", "encamp sandbox down ends it")
    assert states["jobset"] == ("stopped", "encamp sandbox up")


def _answers(_: Layout) -> dict[str, bool]:
    return {"well": True, "again": True, "deaf": False}


def test_each_state_of_a_process_is_told_from_the_others(
    layout: Layout, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    created = creation_time(sleeper.pid)
    now = time.time()

    def process(value: str, starts: int = 1, message: str = "") -> ProcessState:
        return ProcessState(value, sleeper.pid, created, now, starts, message)

    write_state(
        layout,
        _state(
            sleeper.pid,
            created,
            well=process("ready"),
            again=process("ready", 3, "it was ended by SIGKILL"),
            deaf=process("ready"),
            late=process("starting"),
            broken=process("failing", 9, "it exited with 1"),
        ),
    )
    monkeypatch.setattr(status, "_answering", _answers)
    found = sandbox_status(layout)
    states = {process.name: process for process in found.processes}
    assert {name: process.state for name, process in states.items()} == {
        "well": "running",
        "again": "healed",
        "deaf": "failed",
        "late": "starting",
        "broken": "failed",
    }
    assert states["again"].restarts == 2
    assert f"kill -9 {sleeper.pid}" in states["deaf"].advice
    assert str(layout.log("broken")) in states["broken"].advice
    assert found.state == "failed"
    assert set(found.to_json()) == {"root", "state", "advice", "supervisorPid", "processes"}
