"""Jobs that are brought up further after their driver let go of them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from encamp.run.lifecycle.reap import Verdict
from encamp.run.results.receipt import spec_hash
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.run.lifecycle.reap.ground import Ground


pytestmark = pytest.mark.slow


def _left(ground: Ground, **changes: Any) -> None:
    """A job whose driver was told to end while it prepared it, on a machine whose files are not here."""
    job: dict[str, Any] = {"jobId": "job_1", "trainingInput": {}}
    ground.record(job=job, specHash=spec_hash(job), **changes)
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    records.append(lease, "left", {})
    records.release(lease)
    records.close()


@contextlib.contextmanager
def _appearing(ground: Ground, code: int | None) -> Iterator[None]:
    """The job's objects come to be while the next ``up`` runs, which waits for them."""
    hold = ground.world.folder / "engine" / "up-held"
    hold.touch()
    calls = len(ground.world.calls)

    def appear() -> None:
        end = time.monotonic() + 60
        while not any(" up " in call for call in ground.world.calls[calls:]) and time.monotonic() < end:
            time.sleep(0.01)
        ground.world.trains(code)
        hold.unlink()

    thread = threading.Thread(target=appear)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_job_that_its_driver_let_go_of_is_brought_up_further(ground: Ground) -> None:
    _left(ground)
    would = ground.reap(dry_run=True)
    assert (would.verdict, "goes on" in would.why) == (Verdict.HELD, True)
    ground.world.script("up", resources=["bucket"])
    with _appearing(ground, None):
        assert ground.reap().verdict is Verdict.HELD
    assert (ground.found().state, ground.found().left) == (State.RUNNING, False)
    assert any(" up " in call for call in ground.world.calls)
    ground.world.trains(0)
    assert ground.reap().verdict is Verdict.ENDED
    assert (ground.found().state, list(ground.world.stacks)) == (State.SUCCEEDED, ["sandbox"])


def test_what_is_refused_while_a_job_is_brought_up_further_ends_it_as_its_driver_would(ground: Ground) -> None:
    _left(ground)
    ground.world.script("up", resources=["bucket"], error="googleapi: Error 403: Permission denied, forbidden")
    finding = ground.reap(wait=True)
    assert (finding.verdict, ground.found().state) == (Verdict.ENDED, State.FAILED)
    assert "the infrastructure failed" in finding.why
    assert [one.data["exitCode"] for one in ground.found().entries if one.kind == "failure"] == [3]


def test_a_job_that_was_let_go_of_without_its_secrets_says_so(ground: Ground) -> None:
    _left(ground, name="j")
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    intent = {**ground.found().intent, "specHash": "of a job with a secret"}
    records.append(lease, "intent", intent)
    records.append(lease, "left", {})
    records.release(lease)
    records.close()
    finding = ground.reap()
    assert (finding.verdict, ground.found().state) == (Verdict.ENDED, State.FAILED)
    assert "without its secrets" in finding.why


def test_a_job_that_was_let_go_of_twice_is_gone_on_with_by_the_third(ground: Ground) -> None:
    _left(ground)
    ground.world.script("up", hang=True)
    hanging = ground.world.folder / "engine" / "hanging"

    def leave() -> None:
        end = time.monotonic() + 60
        while not hanging.exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=leave).start()
    assert ground.reap(wait=True).verdict is Verdict.HELD
    assert ground.found().left
    ground.world.script("up", resources=["bucket"])
    with _appearing(ground, 0):
        assert ground.reap(wait=True).verdict is Verdict.ENDED
    assert ground.found().state is State.SUCCEEDED
