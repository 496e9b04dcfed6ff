"""The example job, as a newcomer runs it and as the engine runs it by hand."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = pytest.mark.sandbox


def work_tree(camp: Camp) -> str:
    return camp.tool("git", "status", "--porcelain")


def test_the_example_trains_on_three_replicas_and_leaves_its_model(camp: Camp) -> None:
    before = work_tree(camp)
    said = camp.encamp("run", "examples/digits/job.yaml", "--job-id", "digits_example")
    for role in ("chief 0", "worker 0", "worker 1"):
        assert f"{role}: one of 3 replicas" in said
    assert camp.accuracy("digits", "digits_example") >= 0.9
    assert camp.receipt("digits_example")["logs"] == {"complete": True, "replicas": 3}
    camp.assert_nothing_left()
    assert work_tree(camp) == before


def test_destroy_by_hand_takes_a_running_job_down(camp: Camp) -> None:
    camp.pulumi("up", "-s", "digits", "--yes", "--skip-preview")
    wait_until(lambda: len(nodes(camp)) > 0)
    camp.pulumi("destroy", "-s", "digits", "--yes", "--skip-preview")
    camp.assert_nothing_left()


def test_the_engine_by_hand_previews_nothing_and_reap_ends_what_it_started(camp: Camp) -> None:
    before = work_tree(camp)
    camp.pulumi("preview", "-s", "sandbox", "--expect-no-changes")
    camp.pulumi("preview", "-s", "digits")
    camp.pulumi("up", "-s", "digits", "--yes", "--skip-preview")
    wait_until(lambda: len(nodes(camp)) == 3)
    camp.pulumi("preview", "-s", "digits", "--expect-no-changes")
    assert "still trains" in camp.encamp("reap", "--dry-run")
    wait_until(lambda: not nodes(camp))
    camp.pulumi("preview", "-s", "digits", "--expect-no-changes")
    camp.encamp("reap")
    receipt = camp.receipt("digits_by_hand")
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    for replica in ("master-replica-0", "worker-replica-0", "worker-replica-1"):
        assert "one of 3 replicas" in camp.read("digits_by_hand", f"logs/{replica}.log")
    assert camp.accuracy("digits", "digits_by_hand") >= 0.9
    camp.assert_nothing_left()
    refused = subprocess.run(
        ["pulumi", "up", "-s", "digits", "--yes", "--non-interactive"],
        env=camp.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert refused.returncode != 0
    assert "digits_by_hand has ended" in refused.stdout + refused.stderr
    assert work_tree(camp) == before


def nodes(camp: Camp) -> list[str]:
    return camp.tool("kubectl", "get", "nodes", "-o", "name").split()


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.5)
