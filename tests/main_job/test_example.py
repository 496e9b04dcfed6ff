"""The example job, as a newcomer runs it and as the engine runs it by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    assert " resources made in " in said
    # The driver and the stack's program both plan the job; one of them tells what the plan warns of.
    assert said.count("warning: runtimeVersion 2.11 asks for Python 3.7") == 1
    assert "] created " not in said
    again = camp.encamp("rerun", "digits_example", "--folder", "examples/digits", "--job-id", "digits_again", "-q")
    assert "digits_example is run again as digits_again" in again
    assert "one of 3 replicas" not in again
    jobs = [camp.receipt(job)["job"] for job in ("digits_example", "digits_again")]
    assert [job.pop("jobId") for job in jobs] == ["digits_example", "digits_again"]
    assert jobs[0] == jobs[1]
    assert "one of 3 replicas" in camp.encamp("logs", "digits_again", "--replica", "worker-replica-0", "--since", "1h")
    assert len(camp.encamp("logs", "digits_again", "--tail", "1").splitlines()) == 3
    camp.assert_nothing_left()
    assert work_tree(camp) == before


@pytest.mark.jobs
def test_destroy_by_hand_takes_a_running_job_down(camp: Camp) -> None:
    camp.pulumi("up", "-s", "digits", "--yes", "--skip-preview")
    camp.until(lambda: len(camp.nodes()) > 0)
    camp.pulumi("destroy", "-s", "digits", "--yes", "--skip-preview")
    camp.assert_nothing_left()
