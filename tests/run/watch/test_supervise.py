from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.manifests.failure_policy import pod_failure_rules
from encamp.run.logs.stream import LogStreams
from encamp.run.store.states import Outcome, State
from encamp.run.watch.supervise import Limits, Supervisor, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster


class Job:
    """A job of one master and one worker on the fake API server, and its supervisor."""

    def __init__(self, kubernetes: Any, cluster: Cluster, folder: Path) -> None:
        self.kubernetes = kubernetes
        self.shown: list[str] = []
        self.states: list[State] = []
        self.cancelled = threading.Event()
        self.now = 1000.0
        self.pools: list[dict[str, Any]] = []
        self.streams = LogStreams(cluster, "n", folder, lambda name, line: self.shown.append(f"{name}| {line}"))
        watch = Watch(self.shown.append, self.states.append, lambda: self.pools)
        limits = Limits(60, 30, 2)
        self.supervisor = Supervisor(
            cluster,
            "n",
            "j",
            limits=limits,
            streams=self.streams,
            watch=watch,
            cancelled=self.cancelled,
            clock=lambda: self.now,
        )
        kubernetes.put("jobsets", "j", {}, status={})

    def pod(self, role: str, state: dict[str, Any] | None, name: str = "", *, attempt: int = 0, **status: Any) -> None:
        containers = [{"name": "replica", "state": state}] if state else []
        labels = {
            "jobset.sigs.k8s.io/jobset-name": "j",
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        }
        node = {"nodeName": "node-1"} if state else {}
        phase = "Pending" if not state else "Running"
        name = name or f"j-{role}-0-0-x"
        self.kubernetes.logs.setdefault(name, [[b""]])
        full = {"phase": phase, "containerStatuses": containers, **status}
        self.kubernetes.put("pods", name, labels, spec=node, status=full)

    def end(self, terminal: str, message: str = "", **status: Any) -> None:
        conditions = [{"type": terminal, "status": "True", "message": message}]
        status |= {"terminalState": terminal, "conditions": conditions}
        self.kubernetes.objects["jobsets", "j"]["status"] = status

    def restarted(self, restarts: int) -> None:
        """JobSet has started the whole job again, three times at most, and its pods are gone."""
        self.kubernetes.put(
            "jobsets", "j", {}, spec={"failurePolicy": {"maxRestarts": 3}}, status={"restarts": restarts}
        )
        for key in [key for key in self.kubernetes.objects if key[0] == "pods"]:
            del self.kubernetes.objects[key]


RUNNING: dict[str, Any] = {"running": {}}
_POLICY = {"rules": pod_failure_rules(custom_container=False, whole_job=False)}
#: A JobSet whose master is started again five times by itself.
RETRIES = {
    "failurePolicy": {"maxRestarts": 3},
    "replicatedJobs": [
        {"name": "master", "template": {"spec": {"backoffLimitPerIndex": 5, "podFailurePolicy": _POLICY}}}
    ],
}


def _ended(code: int, at: int = 1, **fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{at:02}Z", **fields}}


def _said(reason: str) -> str:
    return json.dumps({"exitCode": 124, "reason": reason, "lastLines": []})


@pytest.fixture
def job(kubernetes: Any, cluster: Cluster, tmp_path: Path) -> Iterator[Job]:
    made = Job(kubernetes, cluster, tmp_path)
    yield made
    made.streams.drain(0)
    made.streams.close()


def _look(job: Job) -> Outcome | None:
    return job.supervisor.look()[0]


def test_it_runs_when_every_replica_has_started(job: Job) -> None:
    job.pod("master", RUNNING)
    job.pod("worker", None)
    assert _look(job) is None
    assert job.states == []
    job.pod("worker", RUNNING)
    assert _look(job) is None
    assert _look(job) is None
    assert job.states == [State.RUNNING]
    assert "worker-replica-0 runs on node-1" in job.shown


def test_the_master_decides(job: Job) -> None:
    job.pod("master", _ended(0))
    job.pod("worker", _ended(143))
    job.end("Completed")
    assert _look(job) == Outcome(State.SUCCEEDED)


def test_the_replica_that_failed_first_is_named_with_its_words_and_last_lines(job: Job) -> None:
    job.pod("master", _ended(143, 9))
    reason = json.dumps({"exitCode": 3, "reason": "ValueError: no data", "lastLines": ["x"]})
    job.pod("worker", _ended(3, 5, message=reason, reason="Error"))
    log = b"".join(b"2026-01-01T00:00:01Z line %d\n" % index for index in range(15))
    job.kubernetes.logs["j-worker-0-0-x"] = [[log]]
    job.end("Failed", "jobset failed due to one or more job failures")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.message == "The replica worker 0 exited with a non-zero status of 3. ValueError: no data"
    assert (outcome.failure.replica, outcome.failure.exit_code) == ("worker-replica-0", 3)
    assert outcome.failure.last_lines == tuple(f"line {index}" for index in range(5, 15))


def test_an_exception_is_told_by_its_last_line_and_a_missing_module_by_what_brings_it(job: Job) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "task.py", line 1',
        "ModuleNotFoundError: No module named 'lightgbm'",
    ]
    job.pod("master", _ended(1, message=json.dumps({"exitCode": 1, "reason": "Error", "lastLines": lines})))
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.message == (
        "The replica master 0 exited with a non-zero status of 1. ModuleNotFoundError: No module named 'lightgbm'; "
        "try --requirement lightgbm"
    )
    assert "master-replica-0 exited with 1: ModuleNotFoundError: No module named 'lightgbm'" in job.shown


@pytest.mark.parametrize(
    ("reason", "done"), [("PackageInstallFailed", "installed"), ("PackageDownloadFailed", "downloaded")]
)
def test_packages_that_cannot_be_set_up_are_no_training_failure(job: Job, reason: str, done: str) -> None:
    lines = [*(f"pip {index}" for index in range(12)), "pip could not install moon>=2"]
    said = json.dumps({"exitCode": 1, "reason": reason, "lastLines": lines})
    job.pod("master", _ended(1, message=said, reason="Error"))
    job.kubernetes.logs["j-master-0-0-x"] = [[b"2026-01-01T00:00:01Z encamp: The replica exits with 1\n"]]
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    message = f"the packages could not be {done} on master-replica-0: pip could not install moon>=2"
    assert (outcome.state, outcome.message) == (State.FAILED, message)
    assert outcome.failure.last_lines == tuple(lines[-10:])


def test_out_of_memory_is_called_so(job: Job) -> None:
    job.pod("master", _ended(137, reason="OOMKilled"))
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.message == "The replica master 0 ran out of memory and exited with a non-zero status of 137."


def _crash(job: Job, at: int, code: int = 137, *, seconds: int = 20, attempt: int = 0) -> Outcome | None:
    """A pod of the master that ends ``seconds`` after its start, and what is seen of that."""
    times = {"startedAt": f"2026-01-01T01:{at:02}:00Z", "finishedAt": f"2026-01-01T01:{at + seconds // 60:02}:20Z"}
    ended = {"terminated": {"exitCode": code, **times}}
    job.pod("master", ended, f"j-master-0-0-{at}", attempt=attempt)
    return _look(job)


def test_a_replica_that_comes_to_the_same_end_at_once_each_time_ends_the_job(job: Job) -> None:
    job.kubernetes.put("jobsets", "j", {}, spec=RETRIES, status={})
    for restart in range(1, 6):
        assert _crash(job, restart) is None
        words = f"RUNNING, restart {restart} of 5, last: master-replica-0 exited with 137"
        assert any(line.startswith(words) for line in job.shown)
    outcome = _crash(job, 6)
    assert outcome is not None
    again = "It ended so 6 times in a row, each time within 120 s of its start, and is not started again."
    message = f"The replica master 0 exited with a non-zero status of 137. {again}"
    assert (outcome.state, outcome.message) == (State.FAILED, message)
    assert not any("restart 6" in line for line in job.shown)


def test_a_pod_that_is_deleted_with_its_idle_machine_had_ended_by_itself(job: Job) -> None:
    """GKE removes the machine while a long wait for a restart lasts, and the pods on it."""
    job.kubernetes.put("jobsets", "j", {}, spec=RETRIES, status={})
    for restart in range(1, 6):
        assert _crash(job, restart) is None
        job.kubernetes.objects["pods", f"j-master-0-0-{restart}"]["metadata"]["deletionTimestamp"] = (
            "2026-01-01T02:00:00Z"
        )
        assert _look(job) is None
        del job.kubernetes.objects["pods", f"j-master-0-0-{restart}"]
        assert _look(job) is None
    assert "master-replica-0 was stopped" not in job.shown
    assert any(line.startswith("RUNNING, restart 5 of 5") for line in job.shown)
    assert _crash(job, 6) is not None


@pytest.mark.parametrize("other", [{"code": 143}, {"seconds": 180}])
def test_ends_that_differ_or_come_late_are_tried_again_as_often_as_the_plan_says(job: Job, other: Any) -> None:
    job.kubernetes.put("jobsets", "j", {}, spec=RETRIES, status={})
    for at in range(1, 6):
        assert _crash(job, at) is None
    assert _crash(job, 6, **other) is None
    for at in range(10, 15):
        assert _crash(job, at, attempt=1) is None
    assert _crash(job, 15, attempt=1) is not None, "now six are alike"


def test_an_end_that_is_for_good_promises_no_restart(job: Job) -> None:
    job.kubernetes.put("jobsets", "j", {}, spec=RETRIES, status={})
    _crash(job, 1, 1)
    _crash(job, 2, 139)
    assert not any(line.startswith("RUNNING") for line in job.shown)


def test_a_failure_without_any_pod_says_what_kubernetes_says(job: Job) -> None:
    job.end("Failed", "the job could not be created")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.message == "the job failed: the job could not be created"


def test_kubernetes_own_deadline_is_a_cancellation(job: Job) -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "j"}
    conditions = [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]
    job.kubernetes.put("jobs", "j-master-0", labels, status={"conditions": conditions})
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert (outcome.state, "maxRunningTime" in outcome.message) == (State.CANCELLED, True)


def test_a_job_set_that_vanishes_is_a_failure(job: Job) -> None:
    del job.kubernetes.objects["jobsets", "j"]
    outcome = _look(job)
    assert outcome is not None
    assert outcome.state is State.FAILED


@pytest.mark.parametrize(("started", "passed", "limit"), [(False, 31, "maxWaitTime"), (True, 61, "maxRunningTime")])
def test_its_limits_cancel_it(job: Job, started: bool, passed: float, limit: str) -> None:
    job.pod("master", RUNNING)
    job.pod("worker", RUNNING if started else None)
    _look(job)
    job.now += passed
    outcome = job.supervisor.run()
    assert (outcome.state, limit in outcome.message) == (State.CANCELLED, True)


def test_waiting_does_not_count_once_it_has_run(job: Job) -> None:
    job.pod("master", RUNNING)
    job.pod("worker", RUNNING)
    _look(job)
    job.now += 40
    job.end("Completed")
    assert job.supervisor.run() == Outcome(State.SUCCEEDED)


def test_a_cancellation_is_seen_at_once(job: Job) -> None:
    job.pod("master", RUNNING)
    threading.Timer(0.2, job.cancelled.set).start()
    begun = time.monotonic()
    assert job.supervisor.run().state is State.CANCELLED
    assert time.monotonic() - begun < 1


@pytest.mark.slow
def test_a_lost_api_server_is_waited_for(job: Job) -> None:
    job.pod("master", _ended(0))
    job.kubernetes.fail("GET .*jobsets", *[503] * 9)
    job.end("Completed")
    assert job.supervisor.run() == Outcome(State.SUCCEEDED)
    assert any("watching it is tried again" in line for line in job.shown)


def test_why_a_replica_waits_is_said_within_the_first_looks(job: Job) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/0 nodes are available"}
    job.pod("master", None, conditions=[condition])
    job.kubernetes.objects["pods", "j-master-0-0-x"]["spec"] = {
        "nodeSelector": {"cloud.google.com/gke-nodepool": "gone"}
    }
    _look(job)
    assert any("master-replica-0: node pool gone is missing" in line for line in job.shown)


def test_an_end_that_was_seen_is_not_forgotten_when_the_pod_is_told_to_go(job: Job) -> None:
    job.pod("master", _ended(4))
    _look(job)
    del job.kubernetes.objects["pods", "j-master-0-0-x"]
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.exit_code == 4


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]


@pytest.mark.slow
def test_a_preempted_replica_is_told_of_and_held_against_nobody(job: Job) -> None:
    job.pod("master", RUNNING)
    job.pod("worker", RUNNING)
    _look(job)
    job.pod("worker", _ended(143, 2), conditions=DISRUPTED, phase="Failed")
    _look(job)
    job.pod("worker", RUNNING, "j-worker-0-0-y")
    _look(job)
    preempted = job.shown.index("worker-replica-0 was preempted: the cloud took away node-1")
    assert job.shown.index("worker-replica-0 is started again, attempt 2") > preempted
    assert job.states == [State.RUNNING]
    job.pod("master", _ended(1, 9))
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.replica == "master-replica-0"
    assert [replica.exit_code for replica in job.supervisor.seen.values()] == [1, 143, None]


def test_at_the_bound_of_restarts_the_reason_is_that_of_the_last_failure(job: Job) -> None:
    for attempt, code in enumerate((139, 139, 139, 130)):
        job.restarted(attempt)
        job.pod("master", RUNNING, f"m-{attempt}", attempt=attempt)
        job.pod("worker", _ended(code, 10 + attempt), f"w-{attempt}", attempt=attempt)
        if attempt < 3:
            assert _look(job) is None
    job.end("Failed", "jobset failed due to reaching max number of restarts", restarts=3)
    outcome = _look(job)
    assert outcome is not None
    assert outcome.state is State.FAILED
    assert "worker 0 exited with a non-zero status of 130" in outcome.message
    assert outcome.message.endswith("The whole job had been started again 3 times before.")
    told = [line for line in job.shown if line.startswith("the whole job is started again")]
    assert told == [
        f"the whole job is started again, restart {count} (at most 3): worker-replica-0 exited with 139"
        for count in (1, 2, 3)
    ]
    assert "worker-replica-0 is started again, attempt 2" not in job.shown
    gone = [replica for replica in job.supervisor.seen.values() if replica.pod in {"m-0", "m-1", "m-2"}]
    assert all(replica.finished and replica.stopped for replica in gone), "gone pods are paid for no longer"
    assert len(job.supervisor.seen) == 8


def test_restarts_that_count_towards_no_bound_are_told_without_it(job: Job) -> None:
    job.restarted(0)
    job.pod("worker", _ended(143, 1), "w-0", conditions=DISRUPTED, phase="Failed")
    _look(job)
    job.restarted(5)
    job.kubernetes.objects["jobsets", "j"]["status"]["restartsCountTowardsMax"] = 0
    _look(job)
    assert "the whole job is started again, restart 5" in job.shown
    job.end("Failed", restarts=5, restartsCountTowardsMax=0)
    outcome = _look(job)
    assert outcome is not None
    assert "started again" not in outcome.message


def test_the_end_that_no_restart_would_have_helped_is_the_jobs(job: Job) -> None:
    job.pod("worker", _ended(143, 1), "w-1")
    job.pod("worker", _ended(143, 2), "w-2")
    job.pod("worker", _ended(255, 9), "w-3")
    job.pod("master", _ended(2, 5))
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.failure.replica, outcome.failure.exit_code) == ("master-replica-0", 2)


def test_a_replica_that_was_restarted_too_often_ends_with_its_last_reason(job: Job) -> None:
    job.pod("worker", _ended(143, 1), "w-1")
    job.pod("worker", _ended(255, 9), "w-2")
    job.pod("master", _ended(141, 3))
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.failure.replica, outcome.failure.exit_code) == ("worker-replica-0", 255)


@pytest.mark.parametrize(("reason", "said"), [("OOMKilled", ""), ("Error", "OOMKilled")])
def test_lack_of_memory_is_not_tried_again(job: Job, reason: str, said: str) -> None:
    job.pod("master", RUNNING)
    job.pod("worker", _ended(137, reason=reason, message=_said(said) if said else ""))
    outcome = job.supervisor.run()
    assert outcome.state is State.FAILED
    assert outcome.message == "The replica worker 0 ran out of memory and exited with a non-zero status of 137."


def test_a_kill_without_a_lack_of_memory_is_tried_again(job: Job) -> None:
    job.pod("worker", _ended(137, reason="Error"))
    assert _look(job) is None


def test_a_replica_that_may_not_start_after_the_deadline_is_a_cancellation(job: Job) -> None:
    """Its pod may be forgotten by then, as its machine is gone; the Job says it."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "j"}
    said = "Container replica for pod n/j-master-0-0-x failed with exit code 124 matching FailJob rule at index 0"
    condition = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": said}
    job.kubernetes.put("jobs", "j-master-0", labels, status={"conditions": [condition]})
    job.end("Failed")
    outcome = _look(job)
    assert outcome is not None
    assert (outcome.state, "deadline" in outcome.message) == (State.CANCELLED, True)


def test_what_kubernetes_said_of_a_pod_that_is_forgotten_is_the_reason(job: Job) -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "j"}
    said = "Container replica for pod n/j-worker-0-0-x failed with exit code 3 matching FailJob rule at index 2"
    condition = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": said}
    job.kubernetes.put("jobs", "j-worker-0", labels, status={"conditions": [condition]})
    job.end("Failed", "jobset failed due to one or more job failures")
    outcome = _look(job)
    assert outcome is not None
    assert (outcome.state, outcome.message) == (State.FAILED, f"the job failed: {said}")
