"""What the official gcp provider sent for thirteen programs of ours works here, and leaves what a second look finds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.cloud.replay import Request, Stage, lost, recording, run

from encamp.plan.access.iam_limits import MOST_IN_LIST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout

pytestmark = pytest.mark.slow

RECORDED = recording()
#: Environments begin with nothing; jobs lie in the one that the case ``sandbox`` makes.
JOBS = [case for case in RECORDED if case == "digits" or case.startswith("job/")]
#: What stands before the programs beside an environment: of users, of other projects.
CHANNEL = {"type": "email", "labels": {"email_address": "all@example.com"}}
BUCKETS = ("packages", "team-results")
NO_CLUSTER_YET = "clusters/encamp: 404"
ENVIRONMENTS = tuple(case for case in RECORDED if case not in JOBS)
#: Requests that are answered otherwise than by the recorded stand-in: in which cases, with which words, how often.
OTHERWISE = (
    # The plugin looks for a cluster of the same name before it creates one. The stand-in made one up; GKE says 404.
    (ENVIRONMENTS, NO_CLUSTER_YET, 1),
    # The program of that time put 20 roles into one list; IAM takes 10 (belief iam-has-only-10-elements).
    (("production",), "HasOnlyListLengthCheck", 6),
)
#: Fields that are not shown as they were sent: a cluster's node config is that of its default pool, which the plugin
#: deletes, and GKE adds a taint to pools with GPUs or TPUs.
SHOWN_ELSEWHERE = re.compile(r"clusters/encamp nodeConfig\.|config\.taints: .*'(nvidia\.com/gpu|google\.com/tpu)'")


def give(stage: Stage) -> None:
    """Make what is there before any program."""
    for project in ("acme-ml", "my-lab-project"):
        cloud, _ = stage.cloud(project)
        cloud.store.create("notificationChannel", f"projects/{project}/notificationChannels/7", CHANNEL)
    path = "/artifactregistry/v1/projects/shared-images/locations/us/repositories"
    run(stage, [Request("given", "POST", path, {"repositoryId": "team"}, {"format": "DOCKER"}, 200)])
    stage.project = "sandbox-encamp"
    run(stage, [Request("given", "POST", "/storage/v1/b", {}, {"name": name}, 200) for name in BUCKETS])
    assert "\n".join(stage.refused) == ""
    stage.project = ""
    stage.made.clear()


@pytest.fixture
def stage(tmp_path: Path, layout: Layout) -> Iterator[Stage]:
    made = Stage(tmp_path, layout)
    yield made
    made.close()


def test_nothing_of_the_recording_is_missing() -> None:
    assert {case: len(requests) for case, requests in RECORDED.items()} == {
        "environment/full": 55,
        "environment/with-queues": 37,
        "environment/with-drivers": 164,
        "environment/with-monitoring": 57,
        "production": 250,
        "sandbox": 21,
        "digits": 32,
        "job/gpu-l4": 30,
        "job/tpu-v6e-multi-host": 32,
        "job/queued": 32,
        "job/storage-own-bucket": 35,
        "job/compact-a2": 32,
        "job/reservation": 30,
    }


def replay(stage: Stage, case: str, requests: list[Request]) -> None:
    """Send a case's requests to a cloud that holds what the case needs."""
    give(stage)
    if case in JOBS:
        run(stage, RECORDED["sandbox"])
        stage.refused.clear()
    run(stage, requests)


def within_limits(request: Request) -> Request:
    """The request with no list of ``hasOnly`` longer than IAM takes."""

    def cut(found: re.Match[str]) -> str:
        return f"hasOnly({json.dumps(json.loads(found[1])[:MOST_IN_LIST])})"

    if not request.path.endswith(":setIamPolicy") or request.body is None:
        return request
    body = json.loads(json.dumps(request.body))
    for binding in body["policy"]["bindings"]:
        if condition := binding.get("condition"):
            condition["expression"] = re.sub(r"hasOnly\((\[.*?\])\)", cut, condition["expression"])
    return replace(request, body=body)


@pytest.mark.parametrize("case", RECORDED)
def test_every_request_is_answered_as_it_was(stage: Stage, case: str) -> None:
    replay(stage, case, RECORDED[case])
    expected = [(words, count) for cases, words, count in OTHERWISE if case in cases]
    for words, count in expected:
        assert sum(words in one for one in stage.refused) == count, words
    assert [one for one in stage.refused if not any(words in one for words, _ in expected)] == []


@pytest.mark.parametrize("case", RECORDED)
def test_a_second_round_of_reads_finds_what_was_made(stage: Stage, case: str) -> None:
    replay(stage, case, [within_limits(request) for request in RECORDED[case]])
    assert len(stage.refused) == sum(case in cases for cases, words, _ in OTHERWISE if words == NO_CLUSTER_YET)
    before = len(stage.refused)
    reads = [Request(case, "GET", path, {}, None, 200) for path in stage.made]
    shown = run(stage, reads)
    found = [
        f"{read.path} {one}"
        for read, answer in zip(reads, shown, strict=True)
        for one in lost(stage.made[read.path], answer.json())
    ]
    assert [one for one in found if not SHOWN_ELSEWHERE.search(one)] == []
    for path, bindings in stage.policies.items():
        storage = path.startswith("/storage/")
        read = Request(case, *(("GET", f"{path}/iam") if storage else ("POST", f"{path}:getIamPolicy")), {}, {}, 200)
        read.query["optionsRequestedPolicyVersion" if storage else "options.requestedPolicyVersion"] = "3"
        [policy] = run(stage, [read])
        assert by_role(policy.json()["bindings"]) == by_role(bindings)
    assert len(stage.refused) == before
    assert len(stage.made) + len(stage.policies) > 5


def by_role(bindings: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """The members of each role and condition."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in bindings:
        key = one["role"], (one.get("condition") or {}).get("expression", "")
        found.setdefault(key, set()).update(one["members"])
    return found
