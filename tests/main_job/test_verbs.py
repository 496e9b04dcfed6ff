"""Jobs that are submitted, followed and cancelled by different processes, on the real engine and controllers."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.camp import ENVIRONMENT, PROJECT

from encamp.plan.names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]


def test_a_submitted_job_is_followed_and_cancelled_by_others(camp: Camp, job: Callable[..., str]) -> None:
    path = job("chief-0=sleep", "worker-0=sleep", "worker-1=sleep")
    said = camp.encamp("submit", path, "--job-id", "submitted")
    assert "submitted\n" in said
    follower = camp.start("attach", "submitted")
    follower.until("bringing up stack")
    refused = camp.encamp("submit", path, "--job-id", "submitted", code=2)
    assert "this job is running: process" in refused
    for replica in ("master-replica-0", "worker-replica-0", "worker-replica-1"):
        follower.until(f"{replica} | ")
    follower.until("the job is RUNNING")
    left = camp.start("attach", "submitted")
    left.until("master-replica-0 | encamp: Running task")
    left.process.send_signal(signal.SIGINT)
    assert "the job goes on" in left.ends(130)
    assert "submitted is CANCELLED" in camp.encamp("cancel", "submitted")
    told = follower.ends(5)
    assert "cancelling, as" in told
    assert "outcome      CANCELLED" in told
    assert camp.receipt("submitted")["outcome"]["state"] == "CANCELLED"
    assert "encamp: Running task" in camp.read("submitted", "logs/worker-replica-1.log")
    assert "has ended: it is CANCELLED" in camp.encamp("cancel", "submitted", code=2)
    camp.assert_nothing_left("submitted")


def test_a_job_whose_driver_is_killed_while_it_brings_up_is_cancelled_by_an_adopter(
    camp: Camp, job: Callable[..., str]
) -> None:
    command = camp.start("run", job("chief-0=sleep"), "--job-id", "unsettled", "-v")
    command.until("] created ")
    os.kill(command.process.pid, signal.SIGKILL)
    said = camp.encamp("cancel", "unsettled")
    assert "nobody drives this job" in said
    assert "unsettled is CANCELLED" in said
    camp.assert_nothing_left("unsettled")


@pytest.mark.parametrize("comes", ["reap", "attach"])
def test_a_job_whose_driver_is_told_to_end_while_it_prepares_it_trains_whoever_comes(
    camp: Camp, job: Callable[..., str], comes: str
) -> None:
    job_id = f"let_go_{comes}"
    camp.encamp("submit", job("chief-0=exit:0:5", "worker-0=exit:0:5", "worker-1=exit:0:5"), "--job-id", job_id)
    log = camp.layout.root / "state" / "jobs" / short_name(PROJECT, ENVIRONMENT, job_id) / "driver.log"
    driver = re.search(r"process (\d+)", camp.encamp("list", "--format", "json"))
    assert driver is not None
    camp.until(lambda: "bringing up stack" in log.read_text())
    os.kill(int(driver[1]), signal.SIGTERM)
    camp.until(lambda: "the job goes on" in log.read_text())
    camp.until(lambda: not psutil.pid_exists(int(driver[1])))
    camp.encamp("reap", "--wait", "--job", job_id) if comes == "reap" else camp.encamp("attach", job_id)
    assert camp.receipt(job_id)["outcome"]["state"] == "SUCCEEDED"
    camp.assert_nothing_left(job_id)


def test_a_replica_that_does_not_go_is_named_and_taken_by_force(camp: Camp, job: Callable[..., str]) -> None:
    """Something holds the pod as a node does that is gone."""
    camp.encamp("submit", job("chief-0=sleep", "worker-0=sleep", "worker-1=sleep"), "--job-id", "stuck")
    follower = camp.start("attach", "stuck")
    follower.until("the job is RUNNING", seconds=240)
    listed = ("kubectl", "get", "pods", "-n", "encamp-jobs", "-o", "name")
    pod = next(name for name in camp.tool(*listed).split() if "/stuck" in name)
    hold = '{"metadata": {"finalizers": ["example.com/held"]}}'
    camp.tool("kubectl", "patch", pod, "-n", "encamp-jobs", "--type=merge", "-p", hold)
    command = camp.start("cancel", "stuck")
    said = command.ends(0, seconds=240)
    assert "stuck is CANCELLED" in said
    name = pod.partition("/")[2]
    assert f"waiting for pod {name}" in said
    assert f"pod {name} did not go within" in said
    assert "waiting for its end for 5 s: it is" in said
    assert camp.receipt("stuck")["outcome"]["state"] == "CANCELLED"
    camp.assert_nothing_left("stuck")
