"""Ctrl-C while a job is brought up and while it trains."""

from __future__ import annotations

from typing import Any

import pytest
from tests.run.lifecycle.driver.world import World, interrupt_when, record_of

from encamp.errors import ExitCode
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


def test_ctrl_c_while_training_stops_the_replicas_keeps_their_logs_and_exits_with_5(world: World, until: Any) -> None:
    world.trains(None)
    thread = interrupt_when(lambda: State.RUNNING in _states(world), until=until)
    result = world.run()
    thread.join()
    assert (result.exit_code, result.outcome.state) == (ExitCode.CANCELLED, State.CANCELLED)
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert _states(world)[-2:] == [State.CANCELLING, State.CANCELLED]
    assert list(world.stacks) == ["sandbox"]


def test_ctrl_c_while_bringing_up_lets_the_engine_finish_and_takes_down(world: World, until: Any) -> None:
    world.script("up", resources=["bucket"], hang=True)
    hanging = (world.folder / "engine" / "hanging").exists
    thread = interrupt_when(hanging, lambda: "sealing the logs" in world.lines, until=until)
    result = world.run()
    thread.join()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.CANCELLED, ["sandbox"])
    assert any("tearing down goes on" in line for line in world.lines)


def test_the_engine_runs_apart_from_the_terminal(world: World) -> None:
    world.trains(0)
    world.run()
    sessions = [call.split()[:2] for call in world.calls]
    assert all(pid == session for pid, session in sessions)


def _states(world: World) -> list[State]:
    record = record_of(world)
    return list(record.times) if record else []
