"""The builder against a stand-in for Go that does what each test needs; the real one runs in ``make tools``."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.tools import TOOLS, BuildProgress, build, catalog, ensure, missing
from encamp_sandbox.tools.catalog import build_folder

if TYPE_CHECKING:
    from pathlib import Path

#: Every test of it starts processes.
pytestmark = pytest.mark.slow

_TOOLS = {name: TOOLS[name] for name in ("etcd", "kubernetes")}
#: Writes what `-o` asks for, the way `go build` does: one file, or one for each package in a folder.
_GOOD = """
echo "$@" >> "$LOG"
while [ "$1" != "-o" ]; do shift; done
out="$2"; shift 2
case "$out" in
    */) for package in "$@"; do echo binary > "$out${package##*/}"; done ;;
    *) echo binary > "$out" ;;
esac
echo example.com/package
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr(catalog, "TOOLS", _TOOLS)
    monkeypatch.setattr(build, "_TICK_SECONDS", 0.05)
    monkeypatch.setattr(build, "_NEEDED_BYTES", 0)
    return tmp_path


def _go(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "path").mkdir()
    program = folder / "path" / "go"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'path'}:/usr/bin:/bin")


def test_what_is_missing_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _go(cache, _GOOD, monkeypatch)
    told: list[BuildProgress] = []
    binaries = ensure(told.append)
    assert all(path.read_text() == "binary\n" for path in binaries.values())
    assert [progress.tool for progress in told if progress.done] == ["etcd", "kubernetes"]
    ensure(told.append)
    calls = (cache / "log").read_text().splitlines()
    assert len(calls) == 2
    assert "-mod=readonly -trimpath" in calls[0]


def test_what_a_killed_build_left_is_cleared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _go(cache, _GOOD, monkeypatch)
    left = build_folder(_TOOLS["etcd"]).parent / ".building-killed"
    left.mkdir(parents=True)
    ensure(lambda _: None)
    assert [path.name for path in left.parent.iterdir()] == [_TOOLS["etcd"].key]


def test_a_failed_build_leaves_nothing_and_shows_what_go_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _go(cache, "echo 'broken.go:1: it is broken'; exit 1", monkeypatch)
    with pytest.raises(SandboxError, match="it is broken"):
        ensure(lambda _: None)
    assert [path.name for path in build_folder(_TOOLS["etcd"]).parent.iterdir()] == []
    assert len(missing()) == 2


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        ("go: go.mod requires go >= 1.26 (running go 1.21.0; GOTOOLCHAIN=local)", "this Go is too old"),
        ("write /tmp/x: no space left on device", "the disk is full"),
        ("dial tcp 10.0.0.1:443: connect: connection refused", "cannot be reached"),
        ("compile: signal: killed", "want of memory"),
        ("verifying module: checksum mismatch", "not what go.sum says"),
    ],
)
def test_known_failures_are_explained(cache: Path, monkeypatch: pytest.MonkeyPatch, said: str, explained: str) -> None:
    _go(cache, f"echo '{said}'; exit 1", monkeypatch)
    with pytest.raises(SandboxError, match=explained) as raised:
        ensure(lambda _: None)
    assert raised.value.hint


def test_without_go_the_user_is_told_to_install_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(SandboxError, match="Go is not installed"):
        ensure(lambda _: None)


def test_a_full_disk_is_seen_before_the_build(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    _go(cache, _GOOD, monkeypatch)
    monkeypatch.setattr(build, "_NEEDED_BYTES", 1 << 60)
    with pytest.raises(SandboxError, match="a build of the tools needs"):
        ensure(lambda _: None)


def test_a_long_build_keeps_talking(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _go(cache, f"echo 'go: downloading example.com/module v1.0.0'; sleep 0.3\n{_GOOD}", monkeypatch)
    told: list[BuildProgress] = []
    ensure(told.append)
    assert "downloading example.com/module v1.0.0" in [progress.text for progress in told]


def test_two_builds_at_once_build_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _go(cache, f"sleep 0.3\n{_GOOD}", monkeypatch)
    told: list[BuildProgress] = []
    # asyncio watches children from any thread here: the process room waits by handle, not by signal.
    threads = [threading.Thread(target=ensure, args=(told.append,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((cache / "log").read_text().splitlines()) == 2
    assert missing() == []
    assert "waiting for another process that builds it" in [progress.text for progress in told]
