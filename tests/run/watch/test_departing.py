"""Replicas that are told to go and do not."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.cloud.leftovers import JobPlace
from encamp.errors import EngineError
from encamp.run.store.records import LeaseLostError
from encamp.run.watch.departing import Departures

LABELS = {"encamp-job": "j"}


class FakeCluster:
    """Objects by kind, and what was taken by force."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {"pods": [], "jobs": [], "jobsets": []}
        self.forced: list[tuple[str, str, bool]] = []
        self.silent = False

    def add(self, kind: str, name: str, *, going: bool = True, grace: int = 0) -> None:
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace} if going else {}
        self.objects[kind].append({"metadata": {"name": name, "uid": f"uid-{name}", **deleted}})

    def list(self, kind: str, namespace: str, selector: str) -> list[dict[str, Any]]:
        assert (namespace, selector) == ("n", "encamp-job=j")
        if self.silent:
            raise EngineError("the API server gives no answer")
        return self.objects[kind]

    def force(self, kind: str, namespace: str, name: str, uid: str, *, finalizers: bool) -> None:
        assert (namespace, uid) == ("n", f"uid-{name}")
        self.forced.append((kind, name, finalizers))


class Ground:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.now = 0.0
        self.said: list[str] = []
        self.lost = False
        self.departures = Departures(
            self.cluster,  # type: ignore[arg-type]
            JobPlace("p", LABELS, namespace="n"),
            self.said.append,
            self.held,
            margin=20.0,
            clock=lambda: self.now,
        )

    def held(self) -> None:
        if self.lost:
            raise LeaseLostError("job")

    def at(self, *seconds: float) -> None:
        for self.now in seconds:
            assert self.departures.step()


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_what_runs_is_left_alone(ground: Ground) -> None:
    ground.cluster.add("pods", "a", going=False)
    ground.at(0, 1000)
    assert (ground.said, ground.cluster.forced) == ([], [])


def test_a_pod_is_given_its_grace_period_and_a_little_more(ground: Ground) -> None:
    ground.cluster.add("pods", "a", grace=30)
    ground.cluster.add("jobsets", "s")
    ground.at(0, 25, 50)
    assert ground.cluster.forced == []
    assert ground.said[1] == "waiting for pod a, jobset s to go, for 25 s; taken by force after 50 s"
    ground.at(51)
    assert ground.cluster.forced == [("pods", "a", False)]
    assert ground.said[-1] == "pod a did not go within 50 s; it is deleted by force"
    ground.at(56)
    # Something holds it still.
    assert ground.cluster.forced[1:] == [("pods", "a", True)]
    ground.cluster.objects["pods"].clear()
    ground.at(58, 61)
    # Alone, what owned it is given as long as it takes without a grace period.
    assert ground.cluster.forced[2:] == [("jobsets", "s", False)]


def test_nothing_is_taken_from_a_job_that_is_anothers(ground: Ground) -> None:
    ground.cluster.add("pods", "a")
    ground.lost = True
    ground.at(0, 100)
    assert ground.cluster.forced == []


def test_a_cluster_that_gives_no_answer_is_said_once(ground: Ground) -> None:
    ground.cluster.silent = True
    ground.at(0, 5, 10)
    assert ground.said == ["what the replicas wait for cannot be told: the API server gives no answer"]


def test_many_are_counted(ground: Ground) -> None:
    for name in "abcdef":
        ground.cluster.add("pods", name)
    ground.at(0)
    assert ground.said == ["waiting for pod a, pod b, pod c and 3 more to go, for 0 s; taken by force after 20 s"]
