"""The real JobSet controller on our kubelet: success, failure, restarts, deletion, deadlines, peers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sandbox

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/trials/jobsets"


def replicated(name: str, count: int, script: str, **job: Any) -> dict[str, Any]:
    container = {"name": "replica", "image": "x", "command": ["sh", "-c", script]}
    template = {
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "nodeSelector": {"encamp-pool": "small"},
            "containers": [container],
        }
    }
    spec = {
        "completionMode": "Indexed",
        "parallelism": count,
        "completions": count,
        "backoffLimit": 0,
        "template": template,
        **job,
    }
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


def condition(cluster: Any, name: str) -> str:
    """The condition that ended a JobSet, or nothing."""
    found = cluster.get(f"{JOBSETS}/{name}")
    conditions = (found or {}).get("status", {}).get("conditions") or []
    return next((one["type"] for one in conditions if one["status"] == "True"), "")


def create(cluster: Any, name: str, *jobs: dict[str, Any], **spec: Any) -> None:
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(jobs), "network": {"enableDNSHostnames": True}, **spec},
    }
    cluster.create(JOBSETS, body)


def pods_of(cluster: Any, name: str) -> list[dict[str, Any]]:
    return cluster.pods(f"jobset.sigs.k8s.io/jobset-name={name}")


def test_two_replicas_talk_on_port_2222_by_their_jobset_names(cluster: Any, until: Callable[..., None]) -> None:
    script = """
python3 - <<'END'
import os, socket, time
index = int(os.environ["JOB_COMPLETION_INDEX"])
server = socket.create_server(("0.0.0.0", 2222))
peer = f"talk-worker-0-{1 - index}.talk"
for _ in range(100):
    try:
        client = socket.create_connection((peer, 2222)); break
    except OSError: time.sleep(0.1)
connection, address = server.accept()
client.sendall(f"hello from {index}".encode()); client.close()
print(connection.recv(100).decode(), "at", socket.gethostname())
END
"""
    create(cluster, "talk", replicated("worker", 2, script))
    until(lambda: condition(cluster, "talk") == "Completed")
    said = sorted(cluster.log(pod["metadata"]["name"]) for pod in pods_of(cluster, "talk"))
    assert said == ["hello from 0 at talk-worker-0-1\n", "hello from 1 at talk-worker-0-0\n"]
    assert len({pod["status"]["podIP"] for pod in pods_of(cluster, "talk")}) == 2


def test_the_masters_success_ends_the_others(cluster: Any, until: Callable[..., None]) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["master"]}
    jobs = [replicated("master", 1, "sleep 2"), replicated("ps", 1, "sleep 900")]
    create(cluster, "chief", *jobs, successPolicy=policy)
    until(lambda: condition(cluster, "chief") == "Completed")
    until(lambda: [pod["status"]["phase"] for pod in pods_of(cluster, "chief")] == ["Succeeded"])
    assert pods_of(cluster, "chief")[0]["metadata"]["name"].startswith("chief-master-0-0-")


def test_a_failed_replica_restarts_all_and_then_the_jobset_fails(cluster: Any, until: Callable[..., None]) -> None:
    jobs = [replicated("worker", 1, "sleep 1; exit 7"), replicated("ps", 1, "sleep 900")]
    create(cluster, "flaky", *jobs, failurePolicy={"maxRestarts": 1})
    until(lambda: condition(cluster, "flaky") == "Failed")
    status = cluster.get(f"{JOBSETS}/flaky")["status"]
    assert status["restarts"] == 1
    failed = [pod for pod in pods_of(cluster, "flaky") if "worker" in pod["metadata"]["name"]]
    codes = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in failed]
    assert codes == [7]


def test_a_restarted_replica_keeps_its_address(cluster: Any, until: Callable[..., None]) -> None:
    jobs = [replicated("worker", 1, "sleep 1; exit 1")]
    create(cluster, "same", *jobs, failurePolicy={"maxRestarts": 1})
    seen: set[tuple[str, str]] = set()

    def watched() -> bool:
        found = pods_of(cluster, "same")
        seen.update((pod["metadata"]["uid"], pod["status"]["podIP"]) for pod in found if pod["status"].get("podIP"))
        return condition(cluster, "same") == "Failed"

    until(watched)
    assert len({uid for uid, _ in seen}) == 2
    assert len({address for _, address in seen}) == 1


def test_foreground_deletion_waits_for_the_pods(cluster: Any, until: Callable[..., None]) -> None:
    script = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
    create(cluster, "away", replicated("worker", 2, script))
    until(lambda: [pod["status"]["phase"] for pod in pods_of(cluster, "away")] == ["Running"] * 2)
    assert cluster.api.request("DELETE", f"{JOBSETS}/away", json={"propagationPolicy": "Foreground"}).is_success
    existed: list[tuple[bool, int]] = []

    def gone() -> bool:
        jobset = cluster.get(f"{JOBSETS}/away") is not None
        existed.append((jobset, len(pods_of(cluster, "away"))))
        return not jobset

    until(gone)
    assert existed[-1] == (False, 0)
    assert (True, 2) in existed
    assert (
        cluster.get("/apis/batch/v1/namespaces/trials/jobs?labelSelector=jobset.sigs.k8s.io/jobset-name=away")["items"]
        == []
    )


def test_a_jobs_deadline_fails_the_jobset(cluster: Any, until: Callable[..., None]) -> None:
    create(cluster, "slow", replicated("worker", 1, "sleep 900", activeDeadlineSeconds=3))
    until(lambda: condition(cluster, "slow") == "Failed")
    until(lambda: pods_of(cluster, "slow") == [] or pods_of(cluster, "slow")[0]["status"]["phase"] == "Failed")
    jobs = cluster.get("/apis/batch/v1/namespaces/trials/jobs/slow-worker-0")["status"]["conditions"]
    assert any(one["type"] == "Failed" and one["reason"] == "DeadlineExceeded" for one in jobs)
