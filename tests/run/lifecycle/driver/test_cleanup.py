"""Cleanup: what is destroyed after a job, what stays, and logs before both."""

from __future__ import annotations

import time

import pytest
from tests.run.lifecycle.driver.world import LABELS, OWN, World, record_of

from encamp.errors import ExitCode, UsageError
from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap
from encamp.run.results.receipt import receipt_text
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


def test_the_logs_are_stored_before_anything_is_destroyed(world: World) -> None:
    world.trains(0)
    world.run()
    uploads = [request for request in world.google.requests if request.path.startswith("/upload")]
    destroyed = next(index for index, call in enumerate(world.calls) if " destroy " in call)
    assert [request.first("name").rpartition("/")[2] for request in uploads] == [
        "master-replica-0.log",
        "times.jsonl",
        "manifest.json",
        "receipt.json",
    ]
    assert any("stack rm" in call for call in world.calls[destroyed:])


def test_infrastructure_that_fails_is_taken_down_and_exits_with_3(world: World) -> None:
    world.script("up", resources=["bucket"], error="googleapi: quota exceeded")
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.INFRASTRUCTURE_FAILED, State.FAILED)
    assert "quota exceeded" in str(result.error)
    assert list(world.stacks) == ["sandbox"]
    assert "no log was seen" in world.stored("logs/manifest.json")["replicas"][0]["reason"]


def test_what_the_engine_lost_is_found_by_its_labels_and_deleted(world: World) -> None:
    """A create without an answer: the engine's state has it pending only, the cloud has it."""
    world.script("up", resources=[], pending=["scratch"], error="timeout")
    world.google.add_bucket("scratch", **LABELS)
    result = world.run()
    assert result.left == ()
    assert list(world.google.buckets) == ["artifacts"]
    assert any("had no answer" in line for line in world.lines)


def test_a_bucket_of_the_jobs_own_stays_with_its_results_until_its_term(world: World) -> None:
    world.google.add_bucket("own", **{"encamp-results": "j"})
    world.google.objects["own", "output/model"] = b"model"
    world.trains(0)
    result = world.run(**OWN)
    receipt = world.stored("receipt.json")
    assert (result.left, receipt["left"]) == ((), ["bucket gs://own with the job's results"])
    assert receipt["results"]["jobDir"] == "gs://own/output"
    assert f"kept until   {receipt['results']['until']}" in receipt_text(receipt)
    assert reap(world.context, "sandbox") == []
    in_a_week = time.time() + 7 * 86_400 + 60
    (would,) = reap(world.context, "sandbox", ReapOptions(dry_run=True), clock=lambda: in_a_week)
    assert (would.verdict, "own" in world.google.buckets) == (Verdict.WOULD_EXPIRE, True)
    (finding,) = reap(world.context, "sandbox", clock=lambda: in_a_week)
    assert (finding.job, finding.verdict) == ("job_1", Verdict.EXPIRED)
    assert list(world.google.buckets) == ["artifacts"]
    assert list(world.google.objects) == [("artifacts", "jobs/job_1/receipt.json")]
    with pytest.raises(UsageError, match="never used again"):
        world.run(**OWN)


def test_a_job_that_fails_without_results_leaves_no_bucket(world: World) -> None:
    world.google.add_bucket("own", **{"encamp-results": "j"})
    world.google.objects["own", "output/"] = b""
    world.trains(7)
    assert world.run(**OWN).exit_code == ExitCode.JOB_FAILED
    assert list(world.google.buckets) == ["artifacts"]
    receipt = world.stored("receipt.json")
    assert (receipt["left"], receipt["results"]["bucket"]) == ([], None)


def test_a_job_whose_job_dir_is_nowhere_is_refused_and_leaves_no_trace(world: World) -> None:
    world.trains(0)
    with pytest.raises(UsageError, match="there is no bucket gs://absent"):
        world.run(job_dir="gs://absent/out")
    assert record_of(world) is None
    assert list(world.stacks) == ["sandbox"]
    assert world.google.objects == {}


def test_a_tear_down_that_fails_exits_with_4_and_hides_no_outcome(world: World) -> None:
    world.trains(7)
    world.script("destroy", keeps=["bucket"])
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.TEARDOWN_FAILED, State.FAILED)
    assert "still lists bucket" in str(result.teardown_error)
    assert not record_of(world).torn_down
    world.script("destroy")
    (finding,) = reap(world.context, "sandbox", ReapOptions(tell=True))
    events = [one["jsonPayload"] for one in world.google.told]
    assert [(one["event"], one.get("state")) for one in events] == [
        ("not-ended", None),
        ("ended", "FAILED"),
        ("reaped", None),
    ]
    assert "still lists bucket" in events[0]["why"]
    assert (events[2]["jobs"], events[2]["troubles"]) == (1, 0)
    assert (finding.verdict, list(world.stacks)) == (Verdict.ENDED, ["sandbox"])
    assert record_of(world).outcome.failure.exit_code == 7


def test_a_log_whose_node_is_gone_comes_from_cloud_logging(world: World) -> None:
    world.trains(0)
    del world.kubernetes.objects["pods", "j-pod"]
    labels = {
        "k8s-pod/encamp-job": "j",
        "k8s-pod/jobset_sigs_k8s_io/replicatedjob-name": "master",
        "k8s-pod/batch_kubernetes_io/job-completion-index": "0",
    }
    for index, (pod, payload) in enumerate(
        [("a", {"textPayload": "one"}), ("a", {"jsonPayload": {"x": 1}}), ("b", {"textPayload": "three\n"})]
    ):
        resource = {"labels": {"pod_name": pod}}
        stamp = f"2026-01-01T00:00:0{index}Z"
        world.google.entries.append({"labels": labels, "resource": resource, "timestamp": stamp, **payload})
    world.google.entries.append({"labels": {}, "resource": {}, "textPayload": "of another"})
    assert world.run().exit_code == ExitCode.OK
    stored = world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"]
    assert stored == b'one\n{"x": 1}\n[encamp] master-replica-0 was started again as b\nthree\n'
    assert world.stored("logs/manifest.json")["replicas"][0]["complete"]


def test_logs_that_cannot_be_stored_do_not_keep_machines_and_are_stored_by_a_later_reap(world: World) -> None:
    world.trains(0)
    world.google.say("POST /upload.*logs", 403, {"error": {"code": 403, "message": "no storage.objects.create"}})
    result = world.run()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.OK, ["sandbox"])
    assert (world.folder / "own" / "jobs" / "j" / "logs" / "master-replica-0.log").read_bytes() == b"hello\n"
    assert any("logs that are not in the bucket stay in" in line for line in world.lines)
    (sealed,) = [entry.data for entry in record_of(world).entries if entry.kind == "sealed"]
    assert sealed["stored"] is False
    assert "master-replica-0: it could not be stored: 403: no storage.objects.create" in sealed["problems"]
    (finding,) = reap(world.context, "sandbox")
    assert (finding.verdict, "cannot be stored yet" in finding.why) == (Verdict.HELD, True)
    world.google.troubles.clear()
    (finding,) = reap(world.context, "sandbox", ReapOptions(dry_run=True))
    assert finding.verdict is Verdict.WOULD_SEAL
    (finding,) = reap(world.context, "sandbox", ReapOptions(job="job_1"))
    assert finding.verdict is Verdict.SEALED
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert world.stored("receipt.json")["logs"] == {"complete": True, "replicas": 1}
    assert not (world.folder / "own" / "jobs" / "j").exists()
    assert reap(world.context, "sandbox") == []
