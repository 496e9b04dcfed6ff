"""Stock images come through a repository of the environment's own, which Docker Hub counts as one."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.plan.environment.image_cache import through_cache
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

CACHE = "us-central1-docker.pkg.dev/my-project/encamp-docker-hub"
DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
PACKAGED = {
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/t-0.1.tar.gz"],
    "pythonModule": "t.t",
}


def lab(project: str = "my-project", **more: Any) -> EnvironmentSpec:
    return parse_environment(DATA | more, project=project, source="x")


def image(environment: EnvironmentSpec, training_input: dict[str, Any]) -> str:
    job = {"jobId": "j", "trainingInput": {"region": "us-central1"} | training_input}
    (group,) = plan_job(parse_job(job, source="x").job, environment).groups
    return group.image


@pytest.mark.parametrize(
    ("name", "pulled"),
    [
        ("tensorflow/tensorflow:2.11.0-gpu", f"{CACHE}/tensorflow/tensorflow:2.11.0-gpu"),
        ("docker.io/tensorflow/tensorflow:2.11.0", f"{CACHE}/tensorflow/tensorflow:2.11.0"),
        ("tensorflow/tensorflow@sha256:0a1b", f"{CACHE}/tensorflow/tensorflow@sha256:0a1b"),
        ("python:3.11", f"{CACHE}/library/python:3.11"),
        ("gcr.io/p/i:1", "gcr.io/p/i:1"),
        ("us-docker.pkg.dev/p/r/i@sha256:0a1b", "us-docker.pkg.dev/p/r/i@sha256:0a1b"),
        ("localhost:5000/i", "localhost:5000/i"),
        ("registry:5000/i", "registry:5000/i"),
    ],
)
def test_images_of_docker_hub_have_a_name_in_the_cache_and_no_other(name: str, pulled: str) -> None:
    assert through_cache(name, lab()) == pulled


def test_a_stock_image_is_pulled_through_the_cache_and_an_own_one_is_not() -> None:
    assert image(lab(), PACKAGED) == f"{CACHE}/tensorflow/tensorflow:2.11.0"
    assert image(lab(), {"masterConfig": {"imageUri": "team/trainer:1"}}) == "team/trainer:1"
    pinned = lab(runtimeImages={"2.11": "tensorflow/tensorflow@sha256:0a1b"})
    assert image(pinned, PACKAGED) == f"{CACHE}/tensorflow/tensorflow@sha256:0a1b"


def test_there_is_a_cache_where_machines_may_read_it_unless_somebody_says_otherwise() -> None:
    assert plan_environment(lab()).image_cache == "encamp-docker-hub"
    assert plan_environment(lab(registry="team")).image_cache == "team-docker-hub"
    assert plan_environment(lab(dockerHubCache=False)).image_cache is None
    assert image(lab(dockerHubCache=False), PACKAGED) == "tensorflow/tensorflow:2.11.0"
    others = {"nodeServiceAccount": "nodes@other.iam.gserviceaccount.com"}
    assert plan_environment(lab(gke=others)).image_cache is None
    assert plan_environment(lab(gke=others, dockerHubCache=True)).image_cache == "encamp-docker-hub"
    assert plan_environment(lab("sandbox-lab")).image_cache is None
