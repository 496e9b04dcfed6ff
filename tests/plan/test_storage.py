from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.access.identity import granted_buckets, workload_principal
from encamp.plan.job import plan_job
from encamp.plan.model import Grant
from encamp.plan.storage import NO_OUTPUT
from encamp.plan.table import job_table
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

USER, VIEWER = (f"roles/storage.object{name}" for name in ("User", "Viewer"))
READER = "roles/storage.legacyBucketReader"


def planned(encamp: dict[str, Any], days: int | None = None, *, keep: bool = False, **fields: Any) -> JobPlan:
    data: dict[str, Any] = {"name": "e", "region": "us-central1", "artifactsBucket": "artifacts"}
    if days is not None:
        data["artifactsRetentionDays"] = days
    if keep:
        data["storage"] = {"keepOutput": True}
    environment = parse_environment(data, project="project-1", source="test")
    training_input = {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://packages/trainer.tar.gz"],
        "pythonModule": "trainer.task",
        **fields,
    }
    job = {"jobId": "digits_1", "trainingInput": training_input, "encamp": encamp}
    return plan_job(parse_job(job, source="test").job, environment)


def on_buckets(plan: JobPlan) -> set[Grant]:
    """The grants on buckets other than scratch and packages."""
    uninteresting = {None, plan.storage.scratch_bucket, "packages"}
    return {grant for grant in plan.identity.grants if grant.bucket not in uninteresting}


OF_EVERY_JOB = Grant(USER, "artifacts", "jobs/digits_1/output/")


def test_the_environments_bucket_needs_no_other_grant() -> None:
    plan = planned({"storage": {"kind": "ENVIRONMENT"}})
    assert plan.storage.job_dir == "gs://artifacts/jobs/digits_1/output"
    assert plan.storage.folder == ("artifacts", "jobs/digits_1/output/")
    assert on_buckets(plan) == {OF_EVERY_JOB}
    assert granted_buckets(plan) == ("packages",)


def test_a_job_without_a_job_dir_is_told_that_it_keeps_nothing() -> None:
    plan = planned({})
    assert plan.storage.job_dir is None
    assert NO_OUTPUT in plan.warnings
    text = job_table(plan)
    assert "job dir  NONE: what the job writes on its machines is lost (--keep-output)" in text
    assert "jobs/digits_1/ (logs, receipt)" in text
    written = {"mounts": [{"bucket": "team", "write": True}]}
    for kept in (planned({}, jobDir="gs://team/here"), planned({"storage": {"kind": "OWN_BUCKET"}}), planned(written)):
        assert NO_OUTPUT not in kept.warnings
    assert NO_OUTPUT in planned({"mounts": [{"bucket": "team"}]}).warnings, "a bucket that is only read keeps nothing"


def test_an_environment_keeps_the_output_of_jobs_that_name_no_job_dir() -> None:
    plan = planned({}, keep=True)
    asked = planned({"storage": {"kind": "ENVIRONMENT"}})
    assert plan.storage == asked.storage
    assert plan.identity == asked.identity
    assert plan.groups == asked.groups
    assert plan.groups[0].args is not None
    assert plan.groups[0].args[-2:] == ("--job-dir", "gs://artifacts/jobs/digits_1/output")
    assert NO_OUTPUT not in plan.warnings
    assert planned({}, keep=True, jobDir="gs://team/here").storage.job_dir == "gs://team/here"
    own = planned({"storage": {"kind": "GIVEN_BUCKET", "bucket": "team"}}, keep=True)
    assert own.storage.job_dir == "gs://team/digits_1"


def test_a_given_bucket_is_granted_below_the_jobs_own_folder_only() -> None:
    plan = planned({"storage": {"kind": "GIVEN_BUCKET", "bucket": "team", "prefix": "a/b"}})
    assert plan.storage.job_dir == "gs://team/a/b/digits_1"
    assert plan.storage.folder == ("team", "a/b/digits_1/")
    assert on_buckets(plan) == {OF_EVERY_JOB, Grant(USER, "team", "a/b/digits_1/")}
    assert planned({"storage": {"kind": "GIVEN_BUCKET", "bucket": "team"}}).storage.job_dir == "gs://team/digits_1"


def test_a_given_account_gets_nothing_on_a_given_bucket() -> None:
    account = "trainer@project-1.iam.gserviceaccount.com"
    plan = planned({"storage": {"kind": "GIVEN_BUCKET", "bucket": "team"}}, serviceAccount=account)
    assert on_buckets(plan) == {OF_EVERY_JOB}
    assert plan.storage.folder is None
    assert plan.identity.account_id is None


@pytest.mark.parametrize("account", [None, "trainer@project-1.iam.gserviceaccount.com"])
def test_a_bucket_of_the_jobs_own_is_granted_whole(account: str | None) -> None:
    encamp = {"storage": {"kind": "OWN_BUCKET"}}
    plan = planned(encamp, serviceAccount=account) if account else planned(encamp)
    own = plan.storage.results_bucket
    assert own is not None
    assert plan.storage.job_dir == f"gs://{own}/output"
    assert own != plan.storage.scratch_bucket
    assert on_buckets(plan) == {OF_EVERY_JOB, Grant(USER, own), Grant(READER, own)}


def test_a_named_job_dir_is_granted_as_a_bucket_that_can_be_asked_for() -> None:
    plan = planned({}, jobDir="gs://team/digits")
    assert on_buckets(plan) == {OF_EVERY_JOB, Grant(USER, "team"), Grant(READER, "team")}


def test_a_package_of_the_artifacts_bucket_is_granted_by_its_name() -> None:
    shared = [f"gs://artifacts/wheels/{number}.whl" for number in range(12)]
    own = "gs://artifacts/jobs/digits_1/packages/a.whl"
    plan = planned({}, packageUris=["gs://artifacts/jobs/digits_1/output/b.whl", own, *shared])
    names = sorted(uri.removeprefix("gs://artifacts/") for uri in shared)
    expected = {
        OF_EVERY_JOB,
        Grant(VIEWER, "artifacts", "jobs/digits_1/packages/", use="packages"),
        Grant(VIEWER, "artifacts", use="packages-0", objects=tuple(names[:10])),
        Grant(VIEWER, "artifacts", use="packages-10", objects=tuple(names[10:])),
    }
    assert on_buckets(plan) == expected


def test_retention_is_the_shorter_of_the_jobs_and_the_environments() -> None:
    environment = {"kind": "ENVIRONMENT"}
    assert planned({"storage": environment}).storage.results_days is None
    assert planned({"storage": environment}, days=30).storage.results_days == 30
    plan = planned({"storage": environment, "retention": {"resultsDays": 90}}, days=30)
    assert plan.storage.results_days == 30
    assert [warning for warning in plan.warnings if "deletes after 30 days" in warning]
    assert planned({"storage": environment, "retention": {"resultsDays": 7}}, days=30).storage.results_days == 7


def test_the_environments_retention_is_not_that_of_a_bucket_of_the_jobs_own() -> None:
    own = {"kind": "OWN_BUCKET"}
    assert planned({"storage": own}, days=30).storage.results_days is None
    assert planned({"storage": own, "retention": {"resultsDays": 90}}, days=30).storage.results_days == 90


def test_direct_identity_is_a_member_by_the_projects_number() -> None:
    plan = planned({"identity": {"mode": "DIRECT"}})
    assert (plan.identity.service_account, plan.identity.account_id) == (None, None)
    assert workload_principal(plan, "42") == (
        "principal://iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/project-1.svc.id.goog"
        f"/subject/ns/encamp-jobs/sa/{plan.name}"
    )
    usual = planned({})
    assert plan.identity.grants == usual.identity.grants
