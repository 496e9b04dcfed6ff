"""A replica whose machine is taken away, and a job that is started again until it may not be any more.

One job shows both: Kubernetes restarts the replica, JobSet the job, and the training goes on from its checkpoint.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

WORKER = "jobset.sigs.k8s.io/replicatedjob-name=worker"


def write_counting(folder: Path, *args: str) -> str:
    """A job file of a master and a worker that count; gives its path."""
    shutil.copytree(Path(__file__).with_name("counting"), folder, dirs_exist_ok=True)
    job = {
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "region": "us-central1",
            "masterType": "n1-standard-4",
            "workerType": "n1-standard-4",
            "workerCount": 1,
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "pythonModule": "trainer.task",
            "args": list(args),
        },
        "encamp": {"packagePath": "trainer", "storage": {"kind": "ENVIRONMENT"}},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return str(folder / "job.yaml")


def test_a_job_goes_on_where_it_was_until_it_may_not_any_more(camp: Camp, tmp_path: Path) -> None:
    begun = time.monotonic()
    command = camp.start("run", write_counting(tmp_path, "--crash=worker-0:8:2"), "--job-id", "restarted")
    command.until("worker-0 has done step 3")
    node = camp.tool(
        "kubectl", "get", "pods", "-n", "encamp-jobs", "-l", WORKER, "-o", "jsonpath={.items[0].spec.nodeName}"
    )
    camp.tool("kubectl", "delete", "node", node)
    said = command.ends(1)
    elapsed = time.monotonic() - begun

    assert f"worker-replica-0 was preempted: the cloud took away {node}" in said
    assert said.count("worker-replica-0 is started again, attempt 2") == 1
    for restart in (1, 2, 3):
        assert f"the whole job is started again, restart {restart} (at most 3)" in said
    outcome = camp.receipt("restarted")["outcome"]
    assert outcome["state"] == "FAILED"
    assert "worker 0 exited with a non-zero status of 139" in outcome["message"]
    assert "had been started again 3 times before" in outcome["message"]
    assert outcome["failure"]["lastLines"][-2] == "worker-0 has done step 14"

    worker = re.findall(r"worker-0 begins at step (\d+) as (.*)", camp.read("restarted", "logs/worker-replica-0.log"))
    steps = [int(step) for step, _ in worker]
    assert steps[0] == 0
    assert steps[1] >= 3, "after the preemption"
    assert steps[2:] == [8, 10, 12], "after the restarts of the whole job"
    assert len({config for _, config in worker}) == 1
    assert json.loads(worker[0][1])[0] == {"type": "worker", "index": 0}
    chief = re.findall(r"chief-0 begins at step (\d+)", camp.read("restarted", "logs/master-replica-0.log"))
    assert len(chief) == 4, "it was left alone when the worker's machine went"
    assert all(int(step) > 0 for step in chief[1:])
    (spent,) = camp.receipt("restarted")["nodeSeconds"].values()
    assert 0 < spent < 2 * elapsed, "a machine is paid for by one replica at a time"
    camp.assert_nothing_left("restarted")


def test_a_replica_that_is_killed_at_once_shows_its_restarts_and_pays_for_the_waits(
    camp: Camp, job: Callable[..., str]
) -> None:
    """After six such ends the job is FAILED; Kubernetes takes five minutes to come to them."""
    path = job("chief-0=exit:137:0", workerCount=0, workerType=None)
    begun = time.monotonic()
    command = camp.start("run", path, "--job-id", "killed")
    last = "last: master-replica-0 exited with 137"
    said = command.until(f"RUNNING, restart 2 of 5, {last}")
    waited = time.monotonic() - begun
    assert f"RUNNING, restart 1 of 5, {last}" in said
    listed = next(line for line in camp.encamp("list").splitlines() if line.startswith("killed "))
    assert f"RUNNING, restart 2 of 5, {last}" in listed
    assert "USD so far" in listed
    described = json.loads(camp.encamp("describe", "killed", "--format", "json"))["encamp"]
    assert described["restarts"]["restart"] == 2
    assert described["costSoFarUsd"] >= 0
    command.process.send_signal(signal.SIGINT)
    command.ends(5, seconds=120)
    (spent,) = camp.receipt("killed")["nodeSeconds"].values()
    assert 10 < spent < 2 * waited, "the ten seconds of the first wait among it"
    camp.assert_nothing_left("killed")
