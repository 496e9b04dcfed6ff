"""Deadlines and limits of jobs that nobody watches."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from tests.run.lifecycle.reap.ground import LATER, LOOK_ALIKES, Ground

from encamp.cloud.leftovers import JOB_LABEL
from encamp.run.lifecycle.reap import Verdict, reap
from encamp.run.store.records import Records
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


def test_what_trains_is_supervised_until_somebody_cancels_it(ground: Ground, until: Any) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(None)
    look = ground.reap()
    assert (look.verdict, ground.found().state) == (Verdict.HELD, State.RUNNING)

    records = ground.world.context.records()

    def left() -> None:
        until(lambda: records.holder_of("job_1"), 30)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=left)
    thread.start()
    finding = ground.reap(wait=True)
    thread.join()
    assert (finding.verdict, finding.why, ground.found().outcome) == (
        Verdict.HELD, "it still trains and is left to itself", None,
    )  # fmt: skip
    assert records.holder_of("job_1") is None
    timer = threading.Timer(1.5, records.request_cancel, ("job_1", "ada"))
    timer.start()
    finding = ground.reap(watch=None, wait=True, job="job_1")
    timer.join()
    records.close()
    assert (finding.verdict, ground.found().state, ground.listed()) == (Verdict.ENDED, State.CANCELLED, LOOK_ALIKES)
    assert ground.found().outcome.message == "ada cancelled it"


def test_limits_count_from_when_the_record_says(ground: Ground) -> None:
    ground.record(maxWaitSeconds=0.001, replicas=["master-replica-0", "worker-replica-0"])
    ground.world.trains(None)
    finding = ground.reap()
    assert (finding.verdict, "maxWaitTime" in ground.found().outcome.message) == (Verdict.ENDED, True)


def test_strangers_go_with_their_deadline_and_never_before(ground: Ground) -> None:
    late = {**ground.labels, "encamp-deadline": "1000000000"}
    ground.google.add_bucket("late", **late)
    ground.google.add_bucket("young", **{**ground.labels, JOB_LABEL: "k", "encamp-deadline": str(int(LATER))})
    ground.google.add_bucket("others", **{**late, "encamp-environment": "other"})
    verdicts = {one.job: one.verdict for one in reap(ground.world.context, "sandbox")}
    assert verdicts == {"j": Verdict.ENDED, "k": Verdict.HELD}
    assert sorted(ground.google.buckets) == ["artifacts", "others", "young"]


def test_a_machine_whose_clock_is_ahead_takes_no_stranger_before_its_deadline(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline = 1_000_000_000
    ground.google.add_bucket("late", **{**ground.labels, "encamp-deadline": str(deadline)})

    def behind(_: Records) -> float:
        return deadline - 60.0

    monkeypatch.setattr(Records, "now", behind)
    assert {one.verdict for one in reap(ground.world.context, "sandbox")} == {Verdict.HELD}
    assert "late" in ground.google.buckets
