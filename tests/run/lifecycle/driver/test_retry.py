"""Retries while a job is brought up or destroyed, and the faults that are not retried."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.run.lifecycle.driver.world import LABELS, OWN, World, interrupt_when, record_of

from encamp.duration import Duration
from encamp.errors import ExitCode
from encamp.plan.model import (
    LimitsPlan,
)
from encamp.retries import RetryPolicy
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


BUSY = "googleapi: Error 503: The service is currently unavailable., backendError"


LOST = "googleapi: Error 504: The request timed out; it may have been done., deadlineExceeded"


def _retries(world: World) -> list[dict[str, Any]]:
    return [entry.data for entry in record_of(world).entries if entry.kind == "retry"]


def test_a_fault_that_passes_while_it_is_brought_up_does_not_fail_a_job(world: World) -> None:
    world.script("up", resources=[], failures={"scratch": BUSY}, times=2)
    world.trains(0)
    result = world.run()
    assert (result.exit_code, result.error) == (ExitCode.OK, None)
    assert [(one["attempt"], "Error 503" in one["error"]) for one in _retries(world)] == [(1, True), (2, True)]
    assert sum("bringing up is tried again in" in line for line in world.lines) == 2
    assert list(world.stacks) == ["sandbox"]


def test_what_a_lost_answer_made_is_deleted_before_the_next_attempt(world: World) -> None:
    world.script("up", resources=[], failures={"scratch": LOST}, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.google.add_bucket("scratch-2", **{**LABELS, "encamp-owner": "somebody"})
    world.trains(0)
    result = world.run()
    assert (result.exit_code, result.left) == (ExitCode.OK, ())
    assert any("exists: deleting bucket gs://scratch" in line for line in world.lines)
    ups = [index for index, call in enumerate(world.calls) if " up " in call]
    assert len(ups) == 2
    assert sorted(world.google.buckets) == ["artifacts", "scratch-2"]


def test_an_empty_bucket_for_results_that_a_lost_answer_made_is_made_anew(world: World) -> None:
    world.script("up", resources=[], failures={"own": LOST}, times=1)
    world.google.add_bucket("own", **{"encamp-results": "j"})
    world.trains(0)
    assert world.run(**OWN).exit_code == ExitCode.OK
    assert any("exists: deleting bucket gs://own" in line for line in world.lines)


def test_an_engine_that_is_killed_is_begun_again_from_what_it_left(world: World) -> None:
    world.script("up", resources=[], pending=["scratch"], killed=True, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.trains(0)
    result = world.run()
    assert result.exit_code == ExitCode.OK
    assert any("clearing the lock of a dead engine" in line for line in world.lines)
    assert any("exists: deleting bucket gs://scratch" in line for line in world.lines)
    assert "the engine was killed (SIGKILL)" in _retries(world)[0]["error"]


def test_a_refusal_is_not_tried_again(world: World) -> None:
    world.script("up", resources=["bucket"], failures={"pool": "googleapi: Error 403: no permission., forbidden"})
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.INFRASTRUCTURE_FAILED, State.FAILED)
    assert _retries(world) == []
    assert sum(" up " in call for call in world.calls) == 1


def test_a_fault_that_stays_fails_the_job_and_names_the_first_error(world: World) -> None:
    world.script("up", resources=[], failures={"a": LOST}, times=1, then={"resources": [], "failures": {"b": BUSY}})
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.INFRASTRUCTURE_FAILED, State.FAILED)
    assert "b: googleapi: Error 503" in result.outcome.message
    assert "first: a: googleapi: Error 504" in result.outcome.message
    assert list(world.stacks) == ["sandbox"]


def test_ctrl_c_ends_the_wait_for_another_attempt(world: World, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = RetryPolicy(attempts=5, first_pause=300.0, longest_pause=300.0, total=900.0)
    monkeypatch.setattr("encamp.run.lifecycle.bring_up.POLICY", slow)
    world.script("up", resources=["bucket"], failures={"pool": BUSY})
    thread = interrupt_when(lambda: any("tried again in" in line for line in world.lines), until=until)
    began = time.monotonic()
    result = world.run()
    thread.join()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.CANCELLED, ["sandbox"])
    assert time.monotonic() - began < 60


def test_a_job_that_may_not_wait_longer_is_cancelled_instead_of_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = RetryPolicy(attempts=50, first_pause=0.2, longest_pause=0.2, total=900.0)
    monkeypatch.setattr("encamp.run.lifecycle.bring_up.POLICY", slow)
    world.script("up", resources=["bucket"], failures={"pool": BUSY})
    result = world.run(limits=LimitsPlan(Duration.of(60), Duration.of(1), 0, 0, 120))
    assert (result.outcome.state, result.outcome.message) == (
        State.CANCELLED,
        "it did not run within maxWaitTime (1 s)",
    )


def test_an_engine_that_waits_for_an_answer_that_never_comes_is_stopped_and_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENCAMP_STALL_SECONDS", "1")
    world.script("up", resources=[], pending=["scratch"], hang=True, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK
    assert any("the engine has said nothing for 1 s" in line for line in world.lines)
    assert "scratch" not in world.google.buckets


def test_a_backend_that_is_away_for_a_moment_is_asked_again(world: World) -> None:
    world.script("stack", error="googleapi: Error 503: Backend Error", times=2)
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK


def test_a_destroy_that_fails_once_is_tried_again(world: World) -> None:
    world.trains(0)
    world.script("destroy", error="cluster is busy", times=1)
    result = world.run()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.OK, ["sandbox"])
