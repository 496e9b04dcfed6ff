from __future__ import annotations

from pathlib import Path

import pytest

from encamp.errors import SpecError, UsageError
from encamp.spec.environment import load_environment, parse_environment
from encamp.spec.job_stack import read_job_stack

ROOT = Path(__file__).parent.parent.parent
DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}


def test_the_committed_sandbox_environment_loads() -> None:
    spec = load_environment("sandbox", ROOT)
    assert (spec.name, spec.project, spec.cluster, spec.namespace) == (
        "sandbox",
        "sandbox-encamp",
        "encamp",
        "encamp-jobs",
    )
    assert spec.stands_in


def test_an_unknown_environment_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="sandbox"):
        load_environment("nowhere", ROOT)


def test_other_regions_are_refused_outside_the_sandbox() -> None:
    assert not parse_environment(DATA, project="my-project", source="x").stands_in
    assert parse_environment(DATA | {"otherRegions": "stand-in"}, project="my-project", source="x").stands_in
    assert not parse_environment(DATA | {"otherRegions": "refuse"}, project="sandbox-x", source="x").stands_in


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"region": "us-central1-a"}, "region"),
        ({"artifactsBucket": "A"}, "artifactsBucket"),
        ({"podsCidr": "10.0.0.1/8"}, "podsCidr"),
        ({"zones": ["europe-west1-b"]}, "zones"),
        ({"owner": "Ana"}, "owner"),
        ({"artifactsRetentionDays": 0}, "artifactsRetentionDays"),
        ({"clustre": "x"}, "clustre"),
        ({"name": 5}, "name"),
    ],
)
def test_wrong_environments_say_where(change: dict[str, object], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_environment(DATA | change, project="my-project", source="x")
    assert path in {problem.path for problem in caught.value.problems}


REAPER = {"image": "gcr.io/lab/encamp:1", "backendUrl": "gs://lab-state", "recordSecret": "record"}


def test_a_reaper_in_the_cluster_looks_every_ten_minutes_where_nothing_else_is_said() -> None:
    spec = parse_environment(DATA | {"reaper": REAPER}, project="my-project", source="x")
    assert spec.reaper is not None
    assert (spec.reaper.schedule, spec.reaper.backend_url) == ("*/10 * * * *", "gs://lab-state")


@pytest.mark.parametrize(
    ("change", "project", "path"),
    [
        ({"backendUrl": "file:///state"}, "my-project", "reaper.backendUrl"),
        ({"backendUrl": None}, "my-project", "reaper.backendUrl"),
        ({"recordSecret": ""}, "my-project", "reaper.recordSecret"),
        ({"image": "an image"}, "my-project", "reaper.image"),
        ({"image": "gcr.io/lab/encamp"}, "my-project", "reaper.image"),
        ({"image": "gcr.io/lab/encamp:latest"}, "my-project", "reaper.image"),
        ({"image": "localhost:5000/encamp"}, "my-project", "reaper.image"),
        ({"image": "gcr.io/lab/encamp:latest@sha256:beef"}, "my-project", "reaper.image"),
        ({"schedule": "every minute"}, "my-project", "reaper.schedule"),
        ({"recordUrl": "postgresql://a:b@c/d"}, "my-project", "reaper.recordUrl"),
        ({}, "sandbox-x", "reaper"),
    ],
)
def test_a_reaper_without_a_backend_and_a_record_that_outlive_it_is_refused(
    change: dict[str, object], project: str, path: str
) -> None:
    written = {key: value for key, value in (REAPER | change).items() if value is not None}
    with pytest.raises(SpecError) as caught:
        parse_environment(DATA | {"reaper": written}, project=project, source="x")
    assert path in {problem.path for problem in caught.value.problems}


@pytest.mark.parametrize("image", ["localhost:5000/encamp:1", f"gcr.io/lab/encamp:latest@sha256:{'0a' * 32}"])
def test_an_exact_image_of_a_reaper_is_taken(image: str) -> None:
    spec = parse_environment(DATA | {"reaper": {**REAPER, "image": image}}, project="my-project", source="x")
    assert spec.reaper is not None
    assert spec.reaper.image == image


@pytest.mark.parametrize("image", ["gcr.io/lab/encamp", "gcr.io/lab/encamp:latest"])
def test_the_api_runs_from_an_exact_image_too(image: str) -> None:
    driver = {**REAPER, "image": "gcr.io/lab/encamp:1"}
    data = DATA | {"driver": driver, "api": {"image": image, "recordSecret": "record"}}
    with pytest.raises(SpecError) as caught:
        parse_environment(data, project="my-project", source="x")
    assert "api.image" in {problem.path for problem in caught.value.problems}


def test_a_project_is_needed() -> None:
    with pytest.raises(SpecError, match="gcp:project"):
        parse_environment(DATA, project=None, source="x")


def test_a_job_stack_names_a_file_of_the_repository() -> None:
    found = read_job_stack({"file": "examples/digits/job.yaml", "jobId": "mine"}, repository=ROOT, stack="s")
    assert (found.job.job_id, found.folder) == ("mine", ROOT / "examples" / "digits")


def test_a_job_stack_may_hold_the_job_itself() -> None:
    data = {"trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}}
    assert read_job_stack(data, repository=ROOT, stack="my-stack").job.job_id == "my_stack"


@pytest.mark.parametrize("file", ["../job.yaml", "/etc/passwd", ""])
def test_a_job_stack_stays_inside_the_repository(file: str) -> None:
    with pytest.raises(SpecError, match="inside the repository"):
        read_job_stack({"file": file}, repository=ROOT, stack="s")


def test_a_link_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (tmp_path / "job.yaml").write_text("region: x\n", encoding="utf-8")
    (repository / "job.yaml").symlink_to(tmp_path / "job.yaml")
    with pytest.raises(SpecError, match="inside the repository"):
        read_job_stack({"file": "job.yaml"}, repository=repository, stack="s")
