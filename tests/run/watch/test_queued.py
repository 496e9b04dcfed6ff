"""What people read while a job waits in a queue."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.errors import EngineError
from encamp.run.watch.queued import queue_words, waits_in_queue

JOB_SET = {
    "metadata": {"name": "j", "namespace": "n", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
    "spec": {"suspend": True},
}


class Cluster:
    """Answers with one Workload, or with an error."""

    def __init__(self, status: dict[str, Any] | None) -> None:
        self.status = status
        self.asked: list[tuple[str, ...]] = []

    def list(self, *asked: str) -> list[dict[str, Any]]:
        self.asked.append(asked)
        if self.status is None:
            raise EngineError("the API server refused: 403")
        return [{"status": self.status}] if self.status else []


def condition(status: str, message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "QuotaReserved", "status": status, "message": message}]}


WAITS = "the job waits in the queue research"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, WAITS),
        (None, WAITS),
        (condition("False", "3600m more needed"), f"{WAITS}: 3600m more needed"),
        (
            condition("True", "reserved")
            | {"admissionChecks": [{"name": "quota", "state": "Ready"}, {"name": "gke", "state": "Pending"}]},
            f"{WAITS}: gke: Pending",
        ),
        (
            condition("True", "reserved")
            | {"admissionChecks": [{"name": "gke", "state": "Retry", "message": "no room in us-central1"}]},
            f"{WAITS}: gke: no room in us-central1",
        ),
        (condition("True", "reserved"), WAITS),
    ],
)
def test_what_a_job_waits_for(status: dict[str, Any] | None, words: str) -> None:
    cluster: Any = Cluster(status)
    assert queue_words(cluster, JOB_SET) == [words]
    assert cluster.asked == [("workloads", "n", "kueue.x-k8s.io/job-uid=u")]


@pytest.mark.parametrize(
    ("change", "waits"),
    [({}, True), ({"spec": {"suspend": False}}, False), ({"spec": {}}, False), ({"metadata": {"name": "j"}}, False)],
)
def test_a_job_waits_until_its_job_set_is_let_in(change: dict[str, Any], waits: bool) -> None:
    assert waits_in_queue(JOB_SET | change) is waits
