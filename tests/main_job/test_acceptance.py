"""``encamp acceptance`` on the sandbox as it is, on a sandbox that lies, and killed at its worst moments."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp.acceptance.ladder import LADDER
from encamp.acceptance.probe import probes
from encamp.cloud.resources import Container
from encamp.cloud.rest import GoogleClient
from encamp_sandbox.lies.switches import all_lies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

STACK = "acceptance"
BUCKET = "sandbox-encamp-acceptance"
CLUSTER = "projects/sandbox-encamp/locations/us-central1/clusters/encamp-acceptance"
WORDS = ("acceptance", "-s", STACK, "--budget", "20", "--yes")
#: What cannot be asked in the sandbox: nothing, unless a reason stands here.
UNASKED: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def without_environment(shared_camp: Camp) -> Iterator[None]:
    """The shared sandbox without its environment: there is one control plane, and so one cluster."""
    with pytest.MonkeyPatch.context() as patch:
        shared_camp.enter(patch)
        shared_camp.storage().empty("sandbox-encamp-artifacts")
    shared_camp.encamp("environment", "down", "--yes")
    yield
    shared_camp.encamp("environment", "up")


def admin(camp: Camp, method: str, path: str, data: Any = None) -> Any:
    url = f"http://127.0.0.1:{camp.layout.ports.front}/encamp/v1/{path}"
    headers = {"Authorization": f"Bearer {camp.layout.token}"}
    answer = httpx.request(method, url, json=data, headers=headers, trust_env=False, timeout=30)
    assert answer.is_success, answer.text
    return answer.json()


def report(said: str) -> dict[str, Any]:
    (path,) = re.findall(r"(/\S+report\.json)", said)
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def states(document: dict[str, Any], state: str) -> set[str]:
    return {one["id"] for one in document["beliefs"] if one["state"] == state}


def assert_nothing_stands(camp: Camp) -> None:
    client = GoogleClient()
    assert Container(client).cluster(CLUSTER) is None
    assert camp.storage().bucket(BUCKET) is None
    assert [
        bucket["name"] for bucket in camp.storage().buckets("sandbox-encamp") if "acceptance" in bucket["name"]
    ] == []
    (stack,) = [one for one in camp.stacks() if one["name"] == STACK]
    assert not stack.get("resourceCount")
    assert not [one["name"] for one in camp.stacks() if one["name"].startswith("job-acceptance")]
    assert camp.pulumi("stack", "tag", "ls", "--json", "-s", STACK).strip() == "{}"
    assert camp.encamp("reap", "--environment", STACK, "--quiet") == ""


def test_every_belief_that_can_be_asked_holds_in_the_sandbox(camp: Camp, tmp_path: Path) -> None:
    before = camp.tool("git", "status", "--porcelain")
    document = report(camp.start(*WORDS, "--output", str(tmp_path / "report")).ends(0, seconds=900))
    assert [one["rung"] for one in document["rungs"]] == [rung.name for rung in LADDER]
    assert all(one["as_believed"] for one in document["rungs"])
    assert (document["left"], document["leftOut"], states(document, "broken")) == ([], [], set())
    assert {probe.belief for probe in probes()} - states(document, "held") == UNASKED.keys()
    assert 0 < document["cost"]["receipts"] < document["cost"]["expected"] < document["cost"]["worst"]
    assert (tmp_path / "report" / "report.md").read_text().startswith(f"# Acceptance of {STACK}")
    assert_nothing_stands(camp)
    assert camp.tool("git", "status", "--porcelain") == before


#: Lies that change what other probes look at, too, with why; each group is told in a run of its own.
APART = {
    "environment": {
        "teardown-nothing-is-left": "its failed tear-down keeps the cluster's",
        "preview-of-environment-is-quiet": "the environment is made anew for it",
    },
    "cpu": {"node-name-begins-with-gke": "the pods of a node are not found by its false name"},
}


def told(token: str, only: str) -> set[str]:
    """The lies of the run of some rungs, so that no lie of a run hides another one's."""
    apart = {rungs: set(lies) for rungs, lies in APART.items()}
    return apart.get(only) or set(all_lies(token)) - set().union(*apart.values())


@pytest.mark.parametrize("only", ["cpu spot queue l4", *APART])
def test_every_lie_is_found_and_nothing_else(camp: Camp, only: str) -> None:
    lies = told(camp.layout.token, only)
    admin(camp, "PUT", "lies", {"on": sorted(lies)})
    try:
        command = camp.start(*WORDS, *(word for rung in only.split() for word in ("--only", rung)))
        command.process.wait(900)
    finally:
        admin(camp, "PUT", "lies", {"on": []})
    assert states(report(command.said()), "broken") == lies, command.said()
    assert command.process.returncode == (4 if "teardown-nothing-is-left" in lies else 1)
    camp.encamp("reap", "--environment", STACK)
    assert_nothing_stands(camp)


def test_an_environment_that_is_there_is_used_and_left(camp: Camp) -> None:
    camp.encamp("environment", "up")
    said = camp.encamp("acceptance", "-s", "sandbox", "--budget", "5", "--yes", "--only", "environment")
    document = report(said)
    assert "it is used and left as it is" in said
    assert document["cost"]["environment_hourly"] == 0
    assert states(document, "broken") == set()
    assert Container(GoogleClient()).cluster(CLUSTER.replace("encamp-acceptance", "encamp")) is not None
    camp.encamp("environment", "down", "--yes")


def test_a_run_that_is_killed_while_its_cluster_is_made_is_taken_down_by_reap(camp: Camp) -> None:
    fault = admin(camp, "POST", "faults", {"type": "container:clusters", "operation": "create", "kind": "pause-after"})
    command = camp.start(*WORDS, "--only", "environment")
    camp.until(lambda: bool(admin(camp, "GET", f"faults/{fault['id']}")["struck"]))
    os.kill(command.process.pid, signal.SIGKILL)
    command.process.wait()
    admin(camp, "DELETE", f"faults/{fault['id']}")
    camp.until(lambda: Container(GoogleClient()).cluster(CLUSTER) is not None)
    assert "would be taken down: its environment and 0 jobs" in camp.encamp("reap", "--environment", STACK, "--dry-run")
    assert "taken down: its environment" in camp.encamp("reap", "--environment", STACK)
    assert_nothing_stands(camp)


def test_one_that_is_killed_at_a_rung_is_gone_on_with(camp: Camp) -> None:
    command = camp.start(*WORDS, "--only", "hang")
    command.until("hang: the job is RUNNING", seconds=240)
    os.kill(command.process.pid, signal.SIGKILL)
    command.process.wait()
    said = camp.encamp(*WORDS, "--only", "hang")
    assert "going on with run" in said
    (rung,) = report(said)["rungs"]
    assert (rung["rung"], rung["as_believed"], rung["job"][-2:]) == ("hang", True, "_2")
    assert_nothing_stands(camp)


def test_ctrl_c_twice_takes_everything_down(camp: Camp) -> None:
    command = camp.start(*WORDS, "--only", "hang")
    command.until("hang: the job is RUNNING", seconds=240)
    command.process.send_signal(signal.SIGINT)
    # Two signals that come before the first is handled are one.
    command.until("cancelling")
    command.process.send_signal(signal.SIGINT)
    said = command.ends(5)
    assert "tearing down goes on" in said
    assert report(said)["exitCode"] == 5
    assert_nothing_stands(camp)


def test_bad_input_makes_nothing(camp: Camp) -> None:
    assert "there is no rung 'gpu'" in camp.encamp(*WORDS, "--only", "gpu", code=2)
    assert "pays for no rung" in camp.encamp("acceptance", "-s", STACK, "--budget", "0.01", "--yes", code=2)
    assert "needs a budget" in camp.encamp("acceptance", "-s", STACK, "--yes", code=2)
    assert "protected" in camp.encamp("acceptance", "-s", "production", "--dry-run", code=2)
    said = camp.encamp("acceptance", "-s", STACK, "--dry-run", "--budget", "2")
    assert "left out: l4: with it the run may cost" in said
    assert_nothing_stands(camp)
