"""What the official gcp provider sent for thirteen programs of ours works here, and leaves what a second look finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.replay import Request, Stage, recording, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.sandbox.layout import Layout

pytestmark = pytest.mark.slow

RECORDED = recording()
#: Environments begin with nothing; jobs lie in the one that the case ``sandbox`` makes.
JOBS = [case for case in RECORDED if case == "digits" or case.startswith("golden/")]
#: What stands before the programs beside an environment: of users, of other projects.
CHANNEL = {"type": "email", "labels": {"email_address": "all@example.com"}}
BUCKETS = ("packages", "team-results")


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
        "golden/gpu-l4": 30,
        "golden/tpu-v6e-multi-host": 32,
        "golden/queued": 32,
        "golden/storage-own-bucket": 35,
        "golden/compact-a2": 32,
        "golden/reservation": 30,
    }


@pytest.mark.parametrize("case", RECORDED)
def test_every_request_is_answered_as_it_was(stage: Stage, case: str) -> None:
    requests = RECORDED[case]
    give(stage)
    if case in JOBS:
        run(stage, RECORDED["sandbox"])
        stage.refused.clear()
    run(stage, requests)
    assert "\n".join(stage.refused) == ""
