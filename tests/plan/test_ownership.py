"""Places of other jobs that a job file may name, and is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError
from encamp.plan.access.identity import OBJECT_VIEWER
from encamp.plan.job import plan_job
from encamp.plan.model import Grant, LocalPackage
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.model import JobPlan

ENVIRONMENT = {
    "name": "lab",
    "region": "us-central1",
    "artifactsBucket": "artifacts",
    "storage": {"logsBucket": "lab-logs"},
    "access": {"audit": {"sink": {"bucket": "lab-audit"}}},
    "driver": {"image": "gcr.io/p/encamp:1", "backendUrl": "gs://lab-states/pulumi", "recordSecret": "record"},
}


def planned(
    job_id: str = "mine", block: dict[str, Any] | None = None, packages: Sequence[LocalPackage] = (), **fields: Any
) -> JobPlan:
    training = {"region": "us-central1", "runtimeVersion": "2.11", "pythonVersion": "3.7", "pythonModule": "t.task"}
    training |= {"packageUris": ["gs://packages/t.tar.gz"], **fields}
    job = parse_job({"jobId": job_id, "trainingInput": training, "encamp": block or {}}, source="test").job
    return plan_job(job, parse_environment(ENVIRONMENT, project="project-1", source="test"), packages=packages)


def own_buckets(plan: JobPlan) -> tuple[str, str]:
    return str(plan.storage.scratch_bucket), str(plan.storage.results_bucket)


@pytest.mark.parametrize(
    "folder",
    [
        "", "/", "/jobs", "/jobs/", "/jobs/other", "/jobs/other/output", "/jobs/mine", "/jobs/mine/",
        "/jobs/mine2/output", "/jobs/mine/logs", "/jobs/mine/packages", "/jobs/mine/outputs",
        "/jobs/mine/output/../logs", "/jobs/mine/output//x", "/jobs/mine/output/./x/..", "/expiry",
        "/models", "/Jobs/mine/output",
    ],
)  # fmt: skip
def test_a_job_dir_of_the_artifacts_bucket_lies_in_the_jobs_output(folder: str) -> None:
    with pytest.raises(PlanError, match=r"own output folder only") as caught:
        planned(jobDir=f"gs://artifacts{folder}")
    assert caught.value.where == "trainingInput.jobDir"
    assert "gs://artifacts/jobs/mine/output" in str(caught.value.hint)


@pytest.mark.parametrize("folder", ["output", "output/", "output/a/b", "output/a/b/"])
def test_a_job_dir_in_the_jobs_output_is_taken_and_needs_no_more_rights(folder: str) -> None:
    plan = planned(jobDir=f"gs://artifacts/jobs/mine/{folder}")
    assert plan.storage.job_dir == f"gs://artifacts/jobs/mine/{folder}"
    assert plan.identity.grants == planned().identity.grants


@pytest.mark.parametrize(
    ("job_id", "storage"),
    [
        ("jobs", {"kind": "GIVEN_BUCKET", "bucket": "artifacts"}),
        ("expiry", {"kind": "GIVEN_BUCKET", "bucket": "artifacts"}),
        ("mine", {"kind": "GIVEN_BUCKET", "bucket": "artifacts", "prefix": "jobs"}),
        ("mine", {"kind": "GIVEN_BUCKET", "bucket": "artifacts", "prefix": "jobs/other"}),
    ],
)
def test_the_artifacts_bucket_is_no_given_bucket(job_id: str, storage: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"own output folder only") as caught:
        planned(job_id, {"storage": storage})
    assert caught.value.where == "encamp.storage.bucket"


@pytest.mark.parametrize(
    "name",
    ["jobs/other/output/model.tar.gz", "jobs/mine2/output/t.tar.gz", "jobs/mine/logs/t.tar.gz", "expiry/t.tar.gz"],
)
def test_packages_of_other_jobs_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match=r"belongs to another job") as caught:
        planned(packageUris=["gs://packages/a.tar.gz", f"gs://artifacts/{name}"])
    assert caught.value.where == "trainingInput.packageUris[1]"


@pytest.mark.parametrize("bucket", ["lab-logs", "lab-audit", "lab-states"])
@pytest.mark.parametrize(
    ("where", "fields", "block"),
    [
        ("trainingInput.jobDir", {"jobDir": "gs://{}/x"}, {}),
        ("trainingInput.packageUris[0]", {"packageUris": ["gs://{}/x.whl"]}, {}),
        ("encamp.stagingBucket", {}, {"stagingBucket": "gs://{}"}),
        ("encamp.storage.bucket", {}, {"storage": {"kind": "GIVEN_BUCKET", "bucket": "{}"}}),
        ("encamp.mounts[0].bucket", {}, {"mounts": [{"bucket": "{}"}]}),
    ],
)
def test_no_job_gets_a_right_on_other_buckets_of_the_environment_or_of_jobs(
    bucket: str, where: str, fields: dict[str, Any], block: dict[str, Any]
) -> None:
    others = own_buckets(planned("other", {"storage": {"kind": "OWN_BUCKET"}}))
    for name in (bucket, *others):
        with pytest.raises(PlanError, match=r"no job gets a right on it") as caught:
            planned(block=_filled(block, name), **_filled(fields, name))
        assert caught.value.where == where


def test_staging_in_the_artifacts_bucket_is_the_jobs_own_folder() -> None:
    wheel = LocalPackage("t.whl", "0" * 64, Path("t.whl"))
    block = {"packages": ["t.whl"], "stagingBucket": "gs://artifacts"}
    plan = planned("expiry", block, packages=[wheel])
    assert plan.storage.packages[0].uri == f"gs://artifacts/jobs/expiry/packages/{'0' * 64}/t.whl"
    assert Grant(OBJECT_VIEWER, "artifacts", "jobs/expiry/packages/", use="packages") in plan.identity.grants


def test_buckets_of_the_users_own_stay_theirs() -> None:
    for name in ("team-scratch-data", "results-2024", "my-results-deadbeef", "lab-logs-2"):
        assert planned(jobDir=f"gs://{name}/x").storage.job_dir == f"gs://{name}/x"


def _filled(data: Any, bucket: str) -> Any:
    if isinstance(data, str):
        return data.format(bucket)
    if isinstance(data, list):
        return [_filled(one, bucket) for one in data]
    return {key: _filled(value, bucket) for key, value in data.items()}
