"""Jobs of the command line whose driver is gone: somebody is started who ends them, and nobody beside a living one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from encamp.api import adopting
from encamp.api.adopting import Adopter
from encamp.run.history.context import Context
from encamp.run.history.detached import DRIVER_LOG
from encamp.run.store.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    found = Records.open(None, tmp_path)
    yield found
    found.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Path]]:
    found: list[tuple[str, str, Path]] = []

    def start(job_id: str, environment: str, log: Path) -> subprocess.Popen[bytes]:
        found.append((job_id, environment, log))
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process

    monkeypatch.setattr(adopting, "start_adopter", start)
    return found


def adopter(records: Records, folder: Path) -> Adopter:
    return Adopter(records, Context(print, print, folder=folder), "sandbox")


def test_a_job_without_a_driver_gets_one(
    records: Records, started: list[tuple[str, str, Path]], tmp_path: Path
) -> None:
    lease = records.begin("typed", "n-typed", {})
    adopt = adopter(records, tmp_path)
    adopt("typed")
    assert started == []

    records.release(lease)
    adopt("typed")

    assert started == [("typed", "sandbox", tmp_path / "jobs" / "n-typed" / DRIVER_LOG)]
    adopt("nobody")
    assert len(started) == 1


def test_what_cannot_be_started_is_in_the_log(
    records: Records, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def start(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(adopting, "start_adopter", start)
    records.release(records.begin("typed", "n-typed", {}))

    adopter(records, tmp_path)("typed")

    assert "no driver could be started for typed: Cannot allocate memory" in caplog.text
