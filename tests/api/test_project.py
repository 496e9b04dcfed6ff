"""What the service says of its project: names, its account, and where jobs run."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.api.errors import ApiError
from encamp.api.project import Locations, Project
from encamp.spec.environment import EnvironmentSpec, parse_environment


def environment(project: str, **more: Any) -> EnvironmentSpec:
    data = {"name": "e", "region": "europe-west4", "artifactsBucket": f"{project}-artifacts", **more}
    return parse_environment(data, project=project, source="the tests")


def test_a_project_goes_by_its_id_and_by_its_number() -> None:
    project = Project("acme-ml", 123456789012, "encamp@acme-ml.iam.gserviceaccount.com")

    assert [project.is_meant(name) for name in ("acme-ml", "123456789012", "acme", "", "None")] == [1, 1, 0, 0, 0]
    assert project.config() == {
        "serviceAccount": "encamp@acme-ml.iam.gserviceaccount.com",
        "serviceAccountProject": "123456789012",
    }
    unknown = Project("acme-ml")
    assert not unknown.is_meant("None")
    assert unknown.config() == {}


def test_jobs_run_in_the_environments_region() -> None:
    locations = Locations(environment("acme-ml"))

    (only,) = locations.page({})["locations"]

    assert only["name"] == "projects/acme-ml/locations/europe-west4"
    (training,) = only["capabilities"]
    assert training["type"] == "TRAINING"
    assert "NVIDIA_TESLA_V100" in training["availableAccelerators"]
    assert locations.location("europe-west4") == only
    with pytest.raises(ApiError) as caught:
        locations.location("us-central1")
    assert (caught.value.code, caught.value.message) == (
        404,
        "There is no location us-central1; known: europe-west4.",
    )


def test_a_sandbox_stands_for_every_region() -> None:
    locations = Locations(environment("sandbox-encamp"))

    names: list[str] = []
    page = locations.page({"pageSize": "7"})
    names += [one["name"] for one in page["locations"]]
    while "nextPageToken" in page:
        assert len(page["locations"]) == 7
        page = locations.page({"pageSize": "7", "pageToken": page["nextPageToken"]})
        names += [one["name"] for one in page["locations"]]

    assert names == sorted(set(names))
    assert len(names) > 15
    with pytest.raises(ApiError):
        locations.page({"pageToken": "x"})
