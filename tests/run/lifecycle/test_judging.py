from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from encamp.run.engine.stack_state import StackState
from encamp.run.lifecycle.judging import Facts, Seen, judge
from encamp.run.store.intent import Intent
from encamp.run.store.records import CancelRequest, RunRecord
from encamp.run.store.states import Outcome, State

DEADLINE = 10_000.0
BEFORE, AFTER = DEADLINE - 5_000, DEADLINE + 1
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
CANCEL = CancelRequest(MOMENT, "ada")
INTENT = Intent(
    job_id="job_1",
    name="j",
    environment="sandbox",
    stack="job-j",
    folder="f",
    project="p",
    cluster="projects/p/locations/r/clusters/c",
    namespace="n",
    artifacts_bucket="artifacts",
    prefix="jobs/job_1/",
    labels={"encamp-job": "j"},
    deadline=DEADLINE,
    max_running_seconds=60,
    max_wait_seconds=None,
    replicas=("master-replica-0",),
    machines={},
)


def record(state: State = State.PREPARING, outcome: Outcome | None = None) -> RunRecord:
    return RunRecord("job_1", "j", MOMENT, state, {state: MOMENT}, outcome=outcome)


def state(*, pending: bool = False, written: float = 0.0, outputs: bool = False) -> StackState:
    stack: dict[str, Any] = {"type": "pulumi:pulumi:Stack", "urn": "a::s", "outputs": {"x": 1} if outputs else {}}
    at = datetime.fromtimestamp(written, UTC).isoformat()
    operations = [{"type": "creating", "resource": {"urn": "a::b::c::d"}}] if pending else []
    return StackState({"manifest": {"time": at}, "resources": [stack], "pending_operations": operations})


SUCCEEDED = Outcome(State.SUCCEEDED)


@pytest.mark.parametrize("seen", list(Seen))
@pytest.mark.parametrize("cancel", [None, CANCEL])
def test_what_had_succeeded_stays_so_whatever_happened_since(seen: Seen, cancel: CancelRequest | None) -> None:
    facts = Facts(seen, record(State.SUCCEEDED, SUCCEEDED), cancel=cancel)
    judgement = judge(INTENT, facts, AFTER + 1e6)
    assert (judgement.over, judgement.outcome) == (True, SUCCEEDED)
    again = judge(INTENT, replace(facts, gone_but_listed=True), BEFORE)
    assert (again.over, again.outcome) == (True, SUCCEEDED)


@pytest.mark.parametrize("now", [BEFORE, AFTER])
@pytest.mark.parametrize("cancel", [None, CANCEL])
def test_a_job_set_that_has_ended_says_how_itself(now: float, cancel: CancelRequest | None) -> None:
    judgement = judge(INTENT, Facts(Seen.ENDED, record(), cancel=cancel), now)
    assert (judgement.over, judgement.outcome) == (True, None)


@pytest.mark.parametrize(
    ("facts", "now", "outcome", "why"),
    [
        (Facts(Seen.RUNS, record()), AFTER, State.CANCELLED, "its deadline has passed"),
        (Facts(Seen.RUNS, record(), cancel=CANCEL), BEFORE, State.CANCELLED, "ada cancelled it"),
        (Facts(Seen.NO_JOB_SET, record(), cancel=CANCEL), BEFORE, State.CANCELLED, "ada cancelled it"),
        (Facts(Seen.NO_JOB_SET, record()), BEFORE, State.FAILED, "its driver died before the training began"),
        (Facts(Seen.NO_JOB_SET, record(State.RUNNING)), BEFORE, State.FAILED, "its JobSet is gone"),
        (Facts(Seen.NO_JOB_SET, None, state(outputs=True)), BEFORE, State.FAILED, "its JobSet is gone"),
        (Facts(Seen.NO_JOB_SET, record(State.RUNNING)), AFTER, State.CANCELLED, "its deadline has passed"),
        (Facts(Seen.NO_CLUSTER, record(State.RUNNING)), BEFORE, State.FAILED, "its cluster is gone"),
        (Facts(Seen.UNKNOWN, record()), AFTER + 3600, State.CANCELLED, "its deadline has passed"),
        (Facts(Seen.NO_JOB_SET, None, state(pending=True, written=BEFORE)), BEFORE, State.FAILED, "`pulumi up` died"),
        (Facts(Seen.NO_JOB_SET, None, state(written=BEFORE - 3601)), BEFORE, State.FAILED, "`pulumi up` died"),
    ],
)  # fmt: skip
def test_what_has_no_end_of_its_own_is_given_one(facts: Facts, now: float, outcome: State, why: str) -> None:
    judgement = judge(INTENT, facts, now)
    assert judgement.outcome is not None
    assert (judgement.over, judgement.outcome.state, why in judgement.why) == (True, outcome, True)


@pytest.mark.parametrize(
    ("facts", "now", "trains", "why"),
    [
        (Facts(Seen.RUNS, record()), BEFORE, True, "still trains"),
        (Facts(Seen.RUNS, None), BEFORE, True, "still trains"),
        (Facts(Seen.UNKNOWN, record()), AFTER, False, "gives no answer"),
        (Facts(Seen.UNKNOWN, record(), cancel=CANCEL), BEFORE, False, "gives no answer"),
        (Facts(Seen.RUNS, None, alone=False), BEFORE, False, "another machine's driver may have it"),
        (Facts(Seen.ENDED, None, alone=False, ended=BEFORE - 60), BEFORE, False, "another machine's driver"),
        (Facts(Seen.NO_JOB_SET, None, state(written=BEFORE - 60)), BEFORE, False, "may be repeated until"),
    ],
)
def test_what_may_go_on_is_left(facts: Facts, now: float, trains: bool, why: str) -> None:
    judgement = judge(INTENT, facts, now)
    assert (judgement.over, judgement.trains, why in judgement.why) == (False, trains, True)


def test_what_ended_long_ago_has_no_driver_anywhere() -> None:
    judgement = judge(INTENT, Facts(Seen.ENDED, None, alone=False, ended=BEFORE - 3601), BEFORE)
    assert (judgement.over, judgement.outcome) == (True, None)
