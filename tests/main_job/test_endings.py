"""How jobs end: in every case with every log kept, the stack gone and nothing left."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from encamp.cloud.resources import Container
from encamp.cloud.rest import GoogleClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

CLUSTER = "projects/sandbox-encamp/locations/us-central1/clusters/encamp"
REPLICAS = ["master-replica-0", "worker-replica-0", "worker-replica-1"]


def test_the_masters_success_is_the_jobs_stops_the_others_and_uses_up_its_id(
    camp: Camp, job: Callable[..., str]
) -> None:
    path = job("chief-0=exit:0:6", "worker-0=sleep", "worker-1=sleep")
    said = camp.encamp("run", path, "--job-id", "master_succeeds")
    assert "the job is SUCCEEDED" in said
    assert "worker-replica-1 | worker-1 is here and will sleep" in said
    for replica in REPLICAS:
        assert "is here and will" in camp.read("master_succeeds", f"logs/{replica}.log")
    manifest = json.loads(camp.read("master_succeeds", "logs/manifest.json"))
    assert [entry["replica"] for entry in manifest["replicas"]] == REPLICAS
    receipt = camp.receipt("master_succeeds")
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    assert receipt["left"] == []
    assert all(resource["created"] and resource["deleted"] for resource in receipt["resources"])
    camp.assert_nothing_left()
    assert "never used again" in camp.encamp("run", path, "--job-id", "master_succeeds", code=2)


def test_a_replica_that_fails_for_good_fails_the_job_and_says_why(camp: Camp, job: Callable[..., str]) -> None:
    path = job("chief-0=sleep", "worker-0=sleep", "worker-1=import:lightgbm")
    said = camp.encamp("run", path, "--job-id", "worker_fails", code=1)
    why = "ModuleNotFoundError: No module named 'lightgbm'"
    message = f"The replica worker 1 exited with a non-zero status of 1. {why}; try --requirement lightgbm"
    assert f"the job is FAILED: {message}" in said
    assert why in said.partition("the last lines of worker-replica-1:")[2]
    assert camp.receipt("worker_fails")["outcome"]["state"] == "FAILED"
    described = json.loads(camp.encamp("describe", "worker_fails", "--format", "json"))
    assert described["errorMessage"] == message
    assert why in camp.read("worker_fails", "logs/worker-replica-1.log")
    camp.assert_nothing_left()


def test_an_interrupt_cancels_and_a_second_one_changes_nothing(camp: Camp, job: Callable[..., str]) -> None:
    command = camp.start("run", job("chief-0=sleep", "worker-0=sleep", "worker-1=sleep"), "--job-id", "interrupted")
    for replica in REPLICAS:
        command.until(f"{replica} | encamp: Running task")
    command.until("the job is RUNNING")
    command.process.send_signal(signal.SIGINT)
    command.until("cancelling")
    command.process.send_signal(signal.SIGINT)
    assert "tearing down goes on" in command.ends(5, seconds=120)
    receipt = camp.receipt("interrupted")
    assert receipt["outcome"]["state"] == "CANCELLED"
    for replica in REPLICAS:
        assert "encamp: Running task" in camp.read("interrupted", f"logs/{replica}.log")
    camp.assert_nothing_left()


def test_a_job_runs_out_of_its_time(camp: Camp, job: Callable[..., str]) -> None:
    path = job("chief-0=sleep", scheduling={"maxRunningTime": "3s"})
    said = camp.encamp("run", path, "--job-id", "too_long", code=5)
    assert "maxRunningTime" in said
    assert camp.receipt("too_long")["outcome"]["state"] == "CANCELLED"
    camp.assert_nothing_left()


def test_pods_that_no_pool_can_host_are_explained_within_seconds(camp: Camp, job: Callable[..., str]) -> None:
    command = camp.start("run", job("chief-0=sleep", "worker-0=sleep", "worker-1=sleep"), "--job-id", "no_pool")
    command.until("the job is RUNNING")
    container = Container(GoogleClient())
    (pool,) = (found["name"] for found in container.node_pools(CLUSTER))
    container.delete_node_pool(CLUSTER, pool)
    command.until(f"node pool {pool} is missing in the cluster", seconds=40)
    pending = camp.tool(
        "kubectl", "get", "pods", "-n", "encamp-jobs", "--field-selector=status.phase=Pending", "-o", "json"
    )
    messages = [
        condition["message"]
        for pod in json.loads(pending)["items"]
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    assert messages
    command.process.send_signal(signal.SIGINT)
    command.ends(5, seconds=120)
    camp.assert_nothing_left()
