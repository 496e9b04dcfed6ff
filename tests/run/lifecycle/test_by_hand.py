from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from encamp.run.engine.stack_state import StackState
from encamp.run.lifecycle.by_hand import began_at, running_at, written_job
from encamp.run.logs.replicas import read_replica
from encamp.run.store.journal import Entry, fold, state_data
from encamp.run.store.states import State

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOON.replace(hour=18)


def pod(name: str, **state: Any) -> Any:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": name, "batch.kubernetes.io/job-completion-index": "0"}
    status = {"containerStatuses": [{"name": "replica", "state": state}]}
    return read_replica({"metadata": {"name": name, "uid": name + str(state), "labels": labels}, "status": status})


def job_set(job: str) -> dict[str, Any]:
    container = {"env": [{"name": "TF_CONFIG", "value": "{}"}, {"name": "CLOUD_ML_JOB", "value": job}]}
    return {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": [container]}}}}}]}}


def test_a_job_began_with_its_first_resource() -> None:
    made = {"type": "t", "urn": "urn::a", "custom": True, "created": "2026-05-01T11:00:00Z"}
    state = StackState({"resources": [made, {**made, "created": "2026-05-01T10:00:00Z"}]})
    created = {"metadata": {"creationTimestamp": "2026-05-01T11:30:00Z"}}
    assert began_at(state, created) == NOON.replace(hour=10)
    assert began_at(None, created) == NOON.replace(hour=11, minute=30)
    assert began_at(None, None) is None


def test_a_job_ran_when_the_last_replica_was_first_started() -> None:
    first = pod("master", terminated={"exitCode": 137, "startedAt": "2026-05-01T11:00:00Z"})
    again = pod("master", running={"startedAt": "2026-05-01T12:00:00Z"})
    worker = pod("worker", running={"startedAt": "2026-05-01T11:00:05Z"})
    assert running_at([first, again, worker]) == NOON.replace(hour=11, second=5)
    assert running_at([worker, pod("ps")]) is None
    assert running_at([]) is None


@pytest.mark.parametrize("text", ["no JSON", "[]", "null", "3"])
def test_a_job_that_cannot_be_read_is_not_made_up(text: str) -> None:
    assert written_job(job_set(text), "j") is None
    assert written_job({"spec": {}}, "j") is None
    assert written_job(None, "j") is None


def test_a_job_is_told_without_secrets() -> None:
    told = {
        "scheduling": {"max_running_time": "60s"},
        "python_module": "trainer.task",
        "args": ["https://u:pass-word@h/", "$HOME"],
    }
    found = written_job(job_set(json.dumps(told).replace("$", "$$")), "j")
    assert found is not None
    assert found == {
        "jobId": "j",
        "trainingInput": {
            "scheduling": {"maxRunningTime": "60s"},
            "pythonModule": "trainer.task",
            "args": ["https://u:[secret]@h/", "$HOME"],
        },
    }


def test_a_state_never_begins_after_it_was_written_down() -> None:
    entries = [
        Entry(NOON, "state", state_data(State.QUEUED, LATER)),
        Entry(LATER, "state", state_data(State.PREPARING, NOON)),
        Entry(LATER, "state", {"state": "RUNNING", "at": "never"}),
    ]
    assert fold("j", "j", NOON, entries).times == {State.QUEUED: NOON, State.PREPARING: NOON, State.RUNNING: LATER}
