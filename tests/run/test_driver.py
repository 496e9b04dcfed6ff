from __future__ import annotations

import json
import os
import signal
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.duration import Duration
from encamp.errors import EngineError, ExitCode, UsageError
from encamp.plan.model import (
    ClusterPlan,
    IdentityPlan,
    JobPlan,
    LimitsPlan,
    ReplicaGroupPlan,
    RequestedMachine,
    ResourceAmounts,
    StoragePlan,
)
from encamp.retries import RetryPolicy
from encamp.run.context import Context
from encamp.run.driver import JobRequest, run_job
from encamp.run.reap import ReapOptions, Verdict, reap
from encamp.run.receipt import receipt_text
from encamp.run.states import State
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.rest import GoogleClient
    from encamp.run.ending import RunResult

pytestmark = pytest.mark.slow

LABELS = {"encamp-job": "j", "encamp-owner": "encamp", "encamp-environment": "sandbox"}
EMAIL = "j@p.iam.gserviceaccount.com"


def _plan(limits: LimitsPlan | None = None, **storage: Any) -> JobPlan:
    group = ReplicaGroupPlan(
        role=Role.MASTER,
        count=1,
        requested=RequestedMachine("n1-standard-4", None),
        machine_type="n1-standard-4",
        accelerator=None,
        image="image",
        command=None,
        args=None,
        env={},
        task_type="chief",
        package_uris=(),
        node_pool="j-pool",
        resources=ResourceAmounts(1000, 1000),
    )
    return JobPlan(
        job_id="job_1",
        name="j",
        region="r",
        project="p",
        environment="sandbox",
        namespace="n",
        groups=(group,),
        cluster=ClusterPlan({}),
        node_pools=(),
        identity=IdentityPlan(EMAIL, "j", "j", ()),
        storage=replace(StoragePlan("artifacts", "jobs/job_1/", None, "scratch"), **storage),
        limits=limits or LimitsPlan(Duration.of(60), None, 0, 0, 120),
        labels=LABELS,
        training_input={},
    )


@dataclass
class World:
    """A fake engine on PATH, a fake Google, a fake API server, and a driver's context."""

    google: Any
    kubernetes: Any
    folder: Path
    context: Context
    lines: list[str]
    logs: list[str] = field(default_factory=list)

    def script(self, name: str, **data: Any) -> None:
        (self.folder / "engine" / f"{name}.json").write_text(json.dumps(data))

    def run(self, **changes: Any) -> RunResult:
        return run_job(JobRequest(_plan(**changes), {"jobId": "job_1", "trainingInput": {}}, "sandbox"), self.context)

    def trains(self, code: int | None, role: str = "master") -> None:
        """The state of the cluster once ``up`` has returned: one replica that runs, or has ended."""
        state: dict[str, Any] = {"running": {}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
            terminal = {"terminalState": "Completed" if code == 0 else "Failed"}
        else:
            terminal = dict[str, str]()
        labels = {
            **LABELS,
            "jobset.sigs.k8s.io/jobset-name": "j",
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
        }
        status = {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"name": "replica", "state": state}],
        }
        groups = [
            {
                "name": "master",
                "template": {"spec": {"completions": 1, "template": {"spec": {"containers": [{"image": "i"}]}}}},
            }
        ]
        self.kubernetes.put("pods", "j-pod", labels, spec={"nodeName": "node"}, status=status)
        self.kubernetes.put("jobsets", "j", LABELS, spec={"replicatedJobs": groups}, status=terminal)
        self.kubernetes.logs["j-pod"] = [[b"2026-01-01T00:00:01Z hello\n"]]

    @property
    def stacks(self) -> dict[str, Any]:
        return json.loads((self.folder / "engine" / "stacks.json").read_text())

    @property
    def calls(self) -> list[str]:
        return (self.folder / "engine" / "calls").read_text().splitlines()

    def stored(self, name: str) -> Any:
        return json.loads(self.google.objects["artifacts", f"jobs/job_1/{name}"])


@pytest.fixture
def world(google: Any, client: GoogleClient, kubernetes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(google, client, kubernetes, tmp_path, monkeypatch)


def make_world(
    google: Any, client: GoogleClient, kubernetes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    for name in ("bin", "engine"):
        (tmp_path / name).mkdir()
    cli = tmp_path / "bin" / "pulumi"
    cli.write_text(f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__).with_name("engine_cli.py")} "$@"\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ENGINE", str(tmp_path / "engine"))
    monkeypatch.setenv("FAKE_ENGINE_PACKAGES", sysconfig.get_path("platlib"))
    monkeypatch.delenv("ENCAMP_RECORD_URL", raising=False)
    outputs = {
        "kubeconfig": kubernetes.kubeconfig(),
        "cluster": "c",
        "location": "r",
        "project": "p",
        "artifactsBucket": "artifacts",
        "namespace": "n",
    }
    stacks: dict[str, Any] = {"sandbox": {"resources": [], "pending": [], "outputs": outputs}}
    (tmp_path / "engine" / "stacks.json").write_text(json.dumps(stacks))
    google.add_bucket("artifacts")
    lines: list[str] = []
    made = World(google, kubernetes, tmp_path, Context(lines.append, lambda *_: None, tmp_path / "own", client), lines)
    made.context.log = lambda name, line: made.logs.append(f"{name} {line}")
    return made


def _record(world: World) -> Any:
    records = world.context.records()
    try:
        return records.record("job_1")
    finally:
        records.close()


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
    assert [entry.kind for entry in _record(world).entries if entry.kind not in {"resource", "pods"}] == [
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


BUSY = "googleapi: Error 503: The service is currently unavailable., backendError"
LOST = "googleapi: Error 504: The request timed out; it may have been done., deadlineExceeded"


def _retries(world: World) -> list[dict[str, Any]]:
    return [entry.data for entry in _record(world).entries if entry.kind == "retry"]


def test_a_fault_that_passes_while_it_is_brought_up_does_not_fail_a_job(world: World) -> None:
    world.script("up", resources=[], failures={"scratch": BUSY}, times=2)
    world.trains(0)
    result = world.run()
    assert (result.exit_code, result.error) == (ExitCode.OK, None)
    assert [(one["attempt"], "Error 503" in one["error"]) for one in _retries(world)] == [(1, True), (2, True)]
    assert sum("bringing up is tried again in" in line for line in world.lines) == 2
    assert list(world.stacks) == ["sandbox"]


def test_what_a_lost_answer_made_is_deleted_before_the_next_attempt(world: World) -> None:
    world.script("up", resources=[], failures={"scratch": LOST}, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.google.add_bucket("scratch-2", **{**LABELS, "encamp-owner": "somebody"})
    world.trains(0)
    result = world.run()
    assert (result.exit_code, result.left) == (ExitCode.OK, ())
    assert any("exists: deleting bucket gs://scratch" in line for line in world.lines)
    ups = [index for index, call in enumerate(world.calls) if " up " in call]
    assert len(ups) == 2
    assert sorted(world.google.buckets) == ["artifacts", "scratch-2"]


def test_an_empty_bucket_for_results_that_a_lost_answer_made_is_made_anew(world: World) -> None:
    world.script("up", resources=[], failures={"own": LOST}, times=1)
    world.google.add_bucket("own", **{"encamp-results": "j"})
    world.trains(0)
    assert world.run(**OWN).exit_code == ExitCode.OK
    assert any("exists: deleting bucket gs://own" in line for line in world.lines)


def test_an_engine_that_is_killed_is_begun_again_from_what_it_left(world: World) -> None:
    world.script("up", resources=[], pending=["scratch"], killed=True, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.trains(0)
    result = world.run()
    assert result.exit_code == ExitCode.OK
    assert any("clearing the lock of a dead engine" in line for line in world.lines)
    assert any("exists: deleting bucket gs://scratch" in line for line in world.lines)
    assert "the engine was killed (SIGKILL)" in _retries(world)[0]["error"]


def test_a_refusal_is_not_tried_again(world: World) -> None:
    world.script("up", resources=["bucket"], failures={"pool": "googleapi: Error 403: no permission., forbidden"})
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.INFRASTRUCTURE_FAILED, State.FAILED)
    assert _retries(world) == []
    assert sum(" up " in call for call in world.calls) == 1


def test_a_fault_that_stays_fails_the_job_and_names_the_first_error(world: World) -> None:
    world.script("up", resources=[], failures={"a": LOST}, times=1, then={"resources": [], "failures": {"b": BUSY}})
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.INFRASTRUCTURE_FAILED, State.FAILED)
    assert "b: googleapi: Error 503" in result.outcome.message
    assert "first: a: googleapi: Error 504" in result.outcome.message
    assert list(world.stacks) == ["sandbox"]


def test_ctrl_c_ends_the_wait_for_another_attempt(world: World, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = RetryPolicy(attempts=5, first_pause=300.0, longest_pause=300.0, total=900.0)
    monkeypatch.setattr("encamp.run.bring_up.POLICY", slow)
    world.script("up", resources=["bucket"], failures={"pool": BUSY})
    thread = _interrupt_when(lambda: any("tried again in" in line for line in world.lines), until=until)
    began = time.monotonic()
    result = world.run()
    thread.join()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.CANCELLED, ["sandbox"])
    assert time.monotonic() - began < 60


def test_a_job_that_may_not_wait_longer_is_cancelled_instead_of_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = RetryPolicy(attempts=50, first_pause=0.2, longest_pause=0.2, total=900.0)
    monkeypatch.setattr("encamp.run.bring_up.POLICY", slow)
    world.script("up", resources=["bucket"], failures={"pool": BUSY})
    result = world.run(limits=LimitsPlan(Duration.of(60), Duration.of(1), 0, 0, 120))
    assert (result.outcome.state, result.outcome.message) == (
        State.CANCELLED,
        "it did not run within maxWaitTime (1 s)",
    )


def test_an_engine_that_waits_for_an_answer_that_never_comes_is_stopped_and_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENCAMP_STALL_SECONDS", "1")
    world.script("up", resources=[], pending=["scratch"], hang=True, times=1)
    world.google.add_bucket("scratch", **LABELS)
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK
    assert any("the engine has said nothing for 1 s" in line for line in world.lines)
    assert "scratch" not in world.google.buckets


def test_a_backend_that_is_away_for_a_moment_is_asked_again(world: World) -> None:
    world.script("stack", error="googleapi: Error 503: Backend Error", times=2)
    world.trains(0)
    assert world.run().exit_code == ExitCode.OK


def test_a_destroy_that_fails_once_is_tried_again(world: World) -> None:
    world.trains(0)
    world.script("destroy", error="cluster is busy", times=1)
    result = world.run()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.OK, ["sandbox"])


OWN = {"results_bucket": "own", "job_dir": "gs://own/output", "results_days": 7}


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
    assert _record(world) is None
    assert list(world.stacks) == ["sandbox"]
    assert world.google.objects == {}


def test_a_tear_down_that_fails_exits_with_4_and_hides_no_outcome(world: World) -> None:
    world.trains(7)
    world.script("destroy", keeps=["bucket"])
    result = world.run()
    assert (result.exit_code, result.outcome.state) == (ExitCode.TEARDOWN_FAILED, State.FAILED)
    assert "still lists bucket" in str(result.teardown_error)
    assert not _record(world).torn_down
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
    assert _record(world).outcome.failure.exit_code == 7


def _interrupt_when(*conditions: Callable[[], bool], until: Any) -> threading.Thread:
    def wait() -> None:
        for condition in conditions:
            until(condition, 30)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_while_training_stops_the_replicas_keeps_their_logs_and_exits_with_5(world: World, until: Any) -> None:
    world.trains(None)
    thread = _interrupt_when(lambda: State.RUNNING in _states(world), until=until)
    result = world.run()
    thread.join()
    assert (result.exit_code, result.outcome.state) == (ExitCode.CANCELLED, State.CANCELLED)
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert _states(world)[-2:] == [State.CANCELLING, State.CANCELLED]
    assert list(world.stacks) == ["sandbox"]


def test_ctrl_c_while_bringing_up_lets_the_engine_finish_and_takes_down(world: World, until: Any) -> None:
    world.script("up", resources=["bucket"], hang=True)
    hanging = (world.folder / "engine" / "hanging").exists
    thread = _interrupt_when(hanging, lambda: "sealing the logs" in world.lines, until=until)
    result = world.run()
    thread.join()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.CANCELLED, ["sandbox"])
    assert any("tearing down goes on" in line for line in world.lines)


def test_the_engine_runs_apart_from_the_terminal(world: World) -> None:
    world.trains(0)
    world.run()
    sessions = [call.split()[:2] for call in world.calls]
    assert all(pid == session for pid, session in sessions)


def _states(world: World) -> list[State]:
    record = _record(world)
    return list(record.times) if record else []


def test_an_environment_that_is_not_up_is_said_before_anything_is_recorded(world: World) -> None:
    (world.folder / "engine" / "stacks.json").write_text("{}")
    with pytest.raises(EngineError, match="environment sandbox is not up"):
        world.run()
    assert _record(world) is None


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
    assert _record(world).state is State.SUCCEEDED
    assert world.stored("receipt.json")["resources"][0]["created"].startswith("2026-01-01")
    assert world.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert reap(world.context, "sandbox") == []


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


def test_an_engines_lock_is_cleared_only_when_its_holder_is_dead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.run.engine_process._LOCK_PATIENCE_SECONDS", 1)
    host = os.uname().nodename
    world.trains(0)
    lock = world.folder / "engine" / "lock"
    lock.write_text(f"file:///x: created by root@{host} (pid 999999) at 2026-01-01T00:00:00Z")
    assert world.run().exit_code == ExitCode.OK
    assert not lock.exists()


def test_a_lock_of_another_machine_is_left_alone(world: World) -> None:
    world.trains(0)
    lock = world.folder / "engine" / "lock"
    lock.write_text("file:///x: created by root@far (pid 1) at 2026-01-01T00:00:00Z")
    assert world.run().exit_code == ExitCode.TEARDOWN_FAILED
    assert lock.exists()


def test_logs_that_cannot_be_stored_do_not_keep_machines_and_are_stored_by_a_later_reap(world: World) -> None:
    world.trains(0)
    world.google.say("POST /upload.*logs", 403, {"error": {"code": 403, "message": "no storage.objects.create"}})
    result = world.run()
    assert (result.exit_code, list(world.stacks)) == (ExitCode.OK, ["sandbox"])
    assert (world.folder / "own" / "jobs" / "j" / "logs" / "master-replica-0.log").read_bytes() == b"hello\n"
    assert any("logs that are not in the bucket stay in" in line for line in world.lines)
    (sealed,) = [entry.data for entry in _record(world).entries if entry.kind == "sealed"]
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


def test_a_pod_of_the_cluster_uses_its_own_way_there_and_leaves_everybodys_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process then destroys, it reaches by the address that is open to it."""
    own = world.kubernetes.kubeconfig({"tokenFile": str(world.folder / "token")})
    (world.folder / "token").write_text("of-the-pod")
    everybodys = world.stacks["sandbox"]["outputs"]["kubeconfig"]
    ways: dict[str, str] = {"projects/p/locations/r/clusters/c": own}
    monkeypatch.setattr("encamp.run.context.own_kubeconfig", ways.get)
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
