"""Jobs that succeed, fail or are refused: record, receipt, exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.run.lifecycle.driver.world import LABELS, World, record_of

from encamp.errors import EngineError, ExitCode, UsageError
from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


def test_a_job_that_succeeds_leaves_its_results_and_nothing_else(world: World) -> None:
    world.trains(0)
    result = world.run()
    assert (result.exit_code, result.left, result.teardown_error) == (ExitCode.OK, (), None)
    assert world.logs == ["master-replica-0 hello"]
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert world.stored("logs/manifest.json")["replicas"][0]["exitCode"] == 0
    receipt = world.stored("receipt.json")
    assert (receipt["outcome"]["state"], receipt["nodeSeconds"], receipt["left"]) == (
        "SUCCEEDED",
        {"n1-standard-4": 60.0},
        [],
    )
    assert list(world.stacks) == ["sandbox"]
    assert not (world.folder / "own" / "jobs" / "j").exists()
    assert [entry.kind for entry in record_of(world).entries if entry.kind not in {"resource", "pods"}] == [
        "intent", "state", "state", "state", "outcome", "state", "sealed", "receipt", "gone",
    ]  # fmt: skip
    (told,) = world.google.told
    assert (told["logName"], told["severity"], told["labels"]) == ("projects/p/logs/encamp-jobs", "NOTICE", LABELS)
    assert told["resource"]["type"] == "k8s_cluster"
    assert told["jsonPayload"] == {
        "event": "ended",
        "job": "job_1",
        "name": "j",
        "state": "SUCCEEDED",
        "why": "",
        "nodeSeconds": {"n1-standard-4": 60.0},
    }


def test_a_job_that_fails_says_which_replica_and_exits_with_1(world: World) -> None:
    world.trains(7)
    world.google.fail("POST /logging/v2/entries:write", 403)
    result = world.run()
    assert result.exit_code == ExitCode.JOB_FAILED
    assert sum("the project's log was not told" in line for line in world.lines) == 1
    assert result.outcome.failure is not None
    assert (result.outcome.failure.replica, result.outcome.failure.last_lines) == ("master-replica-0", ("hello",))
    assert list(world.stacks) == ["sandbox"]


def test_the_same_id_is_refused_afterwards_also_without_the_record(world: World) -> None:
    world.trains(0)
    world.run()
    with pytest.raises(UsageError, match="has ended"):
        world.run()
    (world.folder / "own" / "records.sqlite3").unlink()
    with pytest.raises(UsageError, match="its receipt is in the bucket"):
        world.run()


def test_an_environment_that_is_not_up_is_said_before_anything_is_recorded(world: World) -> None:
    (world.folder / "engine" / "stacks.json").write_text("{}")
    with pytest.raises(EngineError, match="environment sandbox is not up"):
        world.run()
    assert record_of(world) is None


def test_a_job_by_hand_is_left_alone_while_it_trains_and_ended_when_it_has(world: World) -> None:
    outputs = {
        "jobId": "job_1", "name": "j", "namespace": "n", "jobSet": "j", "artifactsBucket": "artifacts",
        "prefix": "jobs/job_1/", "labels": LABELS, "deadline": "4000000000", "nodePools": [],
    }  # fmt: skip
    mine: dict[str, Any] = {"resources": ["bucket"], "pending": [], "outputs": outputs}
    stacks = {**world.stacks, "by-hand": mine}
    (world.folder / "engine" / "stacks.json").write_text(json.dumps(stacks))
    world.trains(None)
    (finding,) = reap(world.context, "sandbox")
    assert world.logs == []
    assert (finding.verdict, "still trains" in finding.why) == (Verdict.HELD, True)
    world.trains(0)
    (finding,) = reap(world.context, "sandbox", ReapOptions(dry_run=True))
    assert (finding.verdict, list(world.stacks)) == (Verdict.WOULD_END, ["sandbox", "by-hand"])
    (finding,) = reap(world.context, "sandbox")
    assert (finding.verdict, list(world.stacks)) == (Verdict.ENDED, ["sandbox"])
    assert world.stored("receipt.json")["outcome"]["state"] == "SUCCEEDED"
    assert record_of(world).state is State.SUCCEEDED
    assert world.stored("receipt.json")["resources"][0]["created"].startswith("2026-01-01")
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert reap(world.context, "sandbox") == []


def test_a_pod_of_the_cluster_uses_its_own_way_there_and_leaves_everybodys_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process then destroys, it reaches by the address that is open to it."""
    own = world.kubernetes.kubeconfig({"tokenFile": str(world.folder / "token")})
    (world.folder / "token").write_text("of-the-pod")
    everybodys = world.stacks["sandbox"]["outputs"]["kubeconfig"]
    ways: dict[str, str] = {"projects/p/locations/r/clusters/c": own}
    monkeypatch.setattr("encamp.run.history.context.own_kubeconfig", ways.get)
    world.script("up", resources=["in-cluster"], kubeconfig=own)
    seen: list[str] = []

    def show(line: str) -> None:
        if line == "waiting for the replicas":
            seen.extend(stack["kubeconfig"] for name, stack in world.stacks.items() if name != "sandbox")

    world.context.show = show
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK
    assert seen == [everybodys]
    assert (world.folder / "engine" / "reached").read_text() == own
    assert {one.headers.get("Authorization") for one in world.kubernetes.requests} == {"Bearer of-the-pod"}


def test_whoever_ends_a_job_that_a_pod_brought_up_reaches_its_cluster(world: World) -> None:
    world.script("up", resources=["in-cluster"], kubeconfig='{"of": "a pod"}')
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK
    assert (world.folder / "engine" / "reached").read_text() == world.stacks["sandbox"]["outputs"]["kubeconfig"]
