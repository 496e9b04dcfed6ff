"""The whole sandbox, brought up, hurt, looked at and taken down by the command that people use."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from encamp_sandbox.layout import ROOT_VARIABLE, Layout
from encamp_sandbox.ports import is_served
from encamp_sandbox.services import service_names
from encamp_sandbox.state import read_state, survivors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sandbox

_INFRA = Path(__file__).parents[2] / "infra"
_MAIN = "import sys; sys.argv[0] = 'encamp'; from encamp.cli.main import main; main()"
_SECONDS = 120.0


def _start(root: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _MAIN, "sandbox", *arguments],
        env={**os.environ, ROOT_VARIABLE: str(root), "PYTHONPATH": str(_INFRA)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str], *, code: int = 0) -> str:
    out, err = process.communicate(timeout=180)
    assert process.returncode == code, err
    return out


def _encamp(root: Path, *arguments: str, code: int = 0) -> str:
    return _finish(_start(root, *arguments), code=code)


def _status(root: Path, *, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_encamp(root, "status", "--format", "json", code=code))
    return found


def _pids(root: Path) -> dict[str, int]:
    state = read_state(Layout(root))
    assert state is not None
    return {"supervisor": state.pid, **{name: process.pid for name, process in state.processes.items()}}


def _words(process: psutil.Process) -> str:
    """The command of a process, empty of one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _all_ready(root: Path) -> bool:
    state = read_state(Layout(root))
    return state is not None and state.all_ready


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def _gone(pids: dict[str, int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids.values())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("lifecycle") / "sandbox"
    _encamp(folder, "up")
    yield folder
    _encamp(folder, "reset", "--yes")
    assert survivors(Layout(folder)) == []


def test_everything_runs(root: Path) -> None:
    found = _status(root)
    assert found["state"] == "running"
    assert [process["name"] for process in found["processes"]] == service_names("ours")
    assert {process["state"] for process in found["processes"]} == {"running"}


def test_up_again_changes_nothing(root: Path) -> None:
    before = _pids(root)
    _encamp(root, "up")
    assert _pids(root) == before


@pytest.mark.parametrize("name", service_names("ours"))
def test_a_killed_process_heals(root: Path, name: str) -> None:
    before = _pids(root)
    os.kill(before[name], signal.SIGKILL)
    _until(lambda: _all_ready(root) and _pids(root)[name] != before[name])
    found = _status(root)
    (process,) = [process for process in found["processes"] if process["name"] == name]
    assert process["state"] == "healed"
    assert "SIGKILL" in process["message"]
    assert found["state"] == "running"


def test_nothing_survives_the_supervisor_and_up_mends_it(root: Path) -> None:
    before = _pids(root)
    os.kill(before["supervisor"], signal.SIGKILL)
    _until(lambda: _gone(before))
    found = _status(root, code=3)
    assert found["state"] == "failed"
    assert "encamp sandbox up" in found["advice"]
    _encamp(root, "up")
    assert not set(_pids(root).values()) & set(before.values())
    assert _status(root)["state"] == "running"


def test_a_second_sandbox_runs_beside_and_two_ups_at_once_start_one(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "sandbox"
    for process in [_start(other, "up"), _start(other, "up")]:
        _finish(process)
    try:
        assert not set(_pids(root).values()) & set(_pids(other).values())
        assert len(survivors(Layout(other))) >= len(_pids(other))
        supervisors = [p for p in survivors(Layout(other)) if "encamp_sandbox.supervisor" in _words(p)]
        assert [process.pid for process in supervisors] == [_pids(other)["supervisor"]]
        assert _status(root)["state"] == _status(other)["state"] == "running"
    finally:
        pids = _pids(other)
        _encamp(other, "down")
    assert _gone(pids)
    assert _status(root)["state"] == "running"


def test_down_leaves_no_process_and_up_finds_what_was_and_other_ports_where_one_was_taken(root: Path) -> None:
    kubectl = [str(Layout(root).bin / "kubectl"), "--kubeconfig", str(Layout(root).kubeconfig)]
    subprocess.run([*kubectl, "create", "namespace", "kept"], check=True, capture_output=True)
    pids, ports = _pids(root), Layout.open(root).ports
    _encamp(root, "down")
    assert _gone(pids)
    assert survivors(Layout(root)) == []
    assert not any(is_served(port) for name, port in ports.to_json().items() if name != "node_base")
    assert _status(root)["state"] == "stopped"
    assert _encamp(root, "down") == ""
    with socket.socket() as somebody:
        somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        somebody.bind(("127.0.0.1", ports.front))
        somebody.listen()
        _encamp(root, "up")
        renewed = Layout.open(root).ports
    assert renewed.front != ports.front
    assert renewed.apiserver == ports.apiserver
    assert str(renewed.front) in _encamp(root, "env")
    shown = subprocess.run([*kubectl, "get", "namespace", "kept", "-o", "name"], check=True, capture_output=True)
    assert shown.stdout == b"namespace/kept\n"


def test_a_process_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    folder = tmp_path / "sandbox"
    layout = Layout.create(folder)
    (layout.etcd_data / "member").write_text("this is no database")
    try:
        with _start(folder, "up") as process:
            _, err = process.communicate(timeout=180)
        assert process.returncode == 3
        assert "the sandbox is not up: etcd: etcd exited with" in err
        assert str(layout.log("etcd")) in err
    finally:
        _encamp(folder, "down")
    assert survivors(layout) == []
