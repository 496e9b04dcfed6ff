"""Locks that engines leave behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from encamp.errors import ExitCode

if TYPE_CHECKING:
    from tests.run.lifecycle.driver.world import World


pytestmark = pytest.mark.slow


def test_an_engines_lock_is_cleared_only_when_its_holder_is_dead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.run.engine.engine_process._LOCK_PATIENCE_SECONDS", 1)
    host = os.uname().nodename
    world.trains(0)
    lock = world.folder / "engine" / "lock"
    lock.write_text(f"file:///x: created by root@{host} (pid 999999) at 2026-01-01T00:00:00Z")
    assert world.run().exit_code == ExitCode.OK
    assert not lock.exists()


def test_a_lock_of_another_machine_is_left_alone(world: World) -> None:
    world.trains(0)
    lock = world.folder / "engine" / "lock"
    lock.write_text("file:///x: created by root@far (pid 1) at 2026-01-01T00:00:00Z")
    assert world.run().exit_code == ExitCode.TEARDOWN_FAILED
    assert lock.exists()
