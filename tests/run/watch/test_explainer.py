"""What a job says while it waits: once what is new, rarely what stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from encamp.run.logs.replicas import replica_labels
from encamp.run.watch.explainer import Explainer
from encamp.run.watch.usual import usual_wait

NO_ROOM = "no nodes available to schedule pods"


def pod(index: int = 0, message: str = NO_ROOM) -> dict[str, Any]:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": message}
    name = f"worker-replica-{index}"
    return {
        "metadata": {"name": name, "uid": f"u{index}", "labels": replica_labels(name)},
        "spec": {},
        "status": {"phase": "Pending", "conditions": [unscheduled]},
    }


class Waiting:
    """A job that waits, and what is said of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lines: list[str] = []
        self.events: list[dict[str, Any]] = []
        cluster: Any = SimpleNamespace(list=self._listed)
        self._explainer = Explainer(
            cluster,
            "jobs",
            show=self.lines.append,
            pools=lambda: [{"name": "a"}],
            allocatable=None,
            clock=lambda: self.now,
        )

    def _listed(self, *_: object, **__: object) -> list[dict[str, Any]]:
        return self.events

    def look(self, *pods: dict[str, Any], after: float = 5.0) -> list[str]:
        """What is said at a look."""
        self.now += after
        self.lines.clear()
        self._explainer.explain([], pods)
        return list(self.lines)


def test_a_wait_is_said_with_what_is_usual_and_again_after_five_minutes() -> None:
    job = Waiting()
    usual = "usually 1 to 3 min on GKE"
    assert job.look(pod()) == [f"worker-replica-0: waits for a machine; {usual}"]
    assert job.look(pod(message="0/3 nodes are available")) == []
    job.events = [{"reason": "TriggeredScaleUp", "involvedObject": {"uid": "u0"}}]
    added = f"worker-replica-0: a machine is being added; {usual}"
    assert job.look(pod()) == [added]
    assert [line for _ in range(59) for line in job.look(pod())] == []
    assert job.look(pod()) == [f"still, for 5 min: {added}"]
    assert job.look(pod()) == []


def test_a_wait_that_stays_is_told_in_the_schedulers_words() -> None:
    job = Waiting()
    job.look(pod())
    (line,) = job.look(pod(), after=301)
    assert line.endswith(f"waits for a machine; usually 1 to 3 min on GKE (scheduler: {NO_ROOM})")


def test_who_stops_waiting_and_waits_again_is_told_anew() -> None:
    job = Waiting()
    first = job.look(pod())
    assert job.look({**pod(), "status": {"phase": "Running"}}) == []
    assert job.look(pod()) == first


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, "usually 3 to 8 min"),
        ({"containers": [{"resources": {"requests": {"google.com/tpu": "4"}}}]}, "where a whole slice is free"),
        ({"nodeSelector": {"cloud.google.com/gke-spot": "true"}}, "spot machines come when Google has room"),
        ({"nodeSelector": {"cloud.google.com/gke-flex-start": "true"}}, "flex-start machines come when"),
    ],
)
def test_what_is_usual_depends_on_the_machine(spec: dict[str, Any], words: str) -> None:
    assert words in usual_wait(spec)
