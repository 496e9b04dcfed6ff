"""What follows from a replica's failure, as on the cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from encamp.plan.manifests.failure_policy import Consequence, consequence, pod_failure_rules
from encamp.process import ProcessOutcome
from encamp.run.local import restarts
from encamp.run.local.model import LocalRunOptions
from encamp.run.local.restarts import Restarts, memory_kills

FAILS, REPLICA, JOB = Consequence.JOB_FAILS, Consequence.REPLICA_AGAIN, Consequence.JOB_AGAIN


def outcome(code: int, seconds: float = 0) -> ProcessOutcome:
    """A process that exited with a code, or was ended by the signal of 128 + n."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    by = code - 128 if code in (134, 137, 139, 143) else None
    return ProcessOutcome("worker-0", 1, None if by else code, by, now, now + timedelta(seconds=seconds), 0, 0.0)


@pytest.mark.parametrize(
    ("code", "custom", "whole", "follows"),
    [
        (1, False, False, FAILS),
        (127, True, True, FAILS),
        (134, False, False, FAILS),
        (134, True, False, JOB),
        (139, False, False, JOB),
        (137, False, False, REPLICA),
        (143, False, False, REPLICA),
        (255, False, False, REPLICA),
        (137, False, True, JOB),
    ],
)
def test_exit_codes_mean_what_they_mean_on_the_cluster(
    code: int, custom: bool, whole: bool, follows: Consequence
) -> None:
    assert consequence(code, custom_container=custom, whole_job=whole) is follows


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_the_clusters_rules_say_the_same_of_every_code(custom: bool, whole: bool) -> None:
    rules = pod_failure_rules(custom_container=custom, whole_job=whole)
    listed = [rule.get("onExitCodes", {}).get("values", []) for rule in rules]
    for code in range(1, 256):
        expected = FAILS if code in listed[0] + listed[2] else JOB if code in listed[3] else REPLICA
        assert consequence(code, custom_container=custom, whole_job=whole) is expected


def test_a_replica_is_tried_again_then_the_job_then_it_fails() -> None:
    counted = Restarts(LocalRunOptions(max_replica_restarts=2, max_restarts=1))
    found = [counted.after("worker-0", outcome(137)) for _ in range(6)]
    assert found == [REPLICA, REPLICA, JOB, REPLICA, REPLICA, FAILS]
    assert counted.jobs == 1


def test_a_replica_that_ends_alike_at_once_each_time_has_the_job_started_again_no_more() -> None:
    counted = Restarts(LocalRunOptions(max_replica_restarts=5, max_restarts=3))
    assert [counted.after("worker-0", outcome(137)) for _ in range(6)] == [REPLICA] * 5 + [FAILS]
    for other in (outcome(143), outcome(137, seconds=121)):
        counted = Restarts(LocalRunOptions(max_replica_restarts=5, max_restarts=3))
        found = [counted.after("worker-0", one) for one in (*[outcome(137)] * 5, other)]
        assert found == [REPLICA] * 5 + [JOB]


def test_each_replica_has_its_own_count() -> None:
    counted = Restarts(LocalRunOptions(max_replica_restarts=1))
    assert counted.after("worker-0", outcome(143)) is REPLICA
    assert counted.after("worker-1", outcome(143)) is REPLICA
    assert counted.told("worker-1") == "1 of 1"
    assert counted.after("worker-1", outcome(143)) is FAILS


def test_without_restarts_every_failure_is_for_good() -> None:
    counted = Restarts(LocalRunOptions())
    assert [counted.after("worker-0", outcome(code)) for code in (1, 137, 139)] == [FAILS] * 3


def test_who_was_killed_for_lack_of_memory_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counters = tmp_path_factory.mktemp("proc") / "vmstat"
    counters.write_text("pgfault 7\noom_kill 3\n")
    monkeypatch.setattr(restarts, "_KERNEL_COUNTERS", counters)
    counted = Restarts(LocalRunOptions(max_replica_restarts=5, max_restarts=5))
    assert counted.after("worker-0", outcome(137)) is REPLICA
    counters.write_text("pgfault 7\noom_kill 4\n")
    assert counted.after("worker-0", outcome(137)) is FAILS
    assert counted.after("worker-0", outcome(137)) is REPLICA
    counters.unlink()
    assert memory_kills() == 0
