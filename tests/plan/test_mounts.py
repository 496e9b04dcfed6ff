"""Buckets as files: where they are seen, what they may be used for, and what the pod asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError
from encamp.plan.declared import declared_resources, grant_name
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

RUNTIME: dict[str, Any] = {
    "region": "us-central1",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
}


def planned(environment: EnvironmentSpec, *mounts: dict[str, Any], job_dir: str | None = None, **more: Any) -> JobPlan:
    training_input = RUNTIME | ({"jobDir": job_dir} if job_dir else {}) | more
    data = {"jobId": "job", "trainingInput": training_input, "encamp": {"mounts": list(mounts)}}
    return plan_job(parse_job(data, source="test").job, environment)


def pod(plan: JobPlan) -> dict[str, Any]:
    (job,) = render_manifests(plan).job_set["spec"]["replicatedJobs"]
    template: dict[str, Any] = job["template"]["spec"]["template"]
    return template


@pytest.mark.parametrize(
    ("mount", "job_dir", "path", "options"),
    [
        ({"bucket": "data"}, None, "/gcs/data", ("implicit-dirs",)),
        ({"bucket": "data", "prefix": "a/b"}, None, "/gcs/data/a/b", ("implicit-dirs", "only-dir=a/b")),
        ({"jobDir": True}, "gs://runs/7/", "/gcs/runs/7", ("implicit-dirs", "only-dir=7")),
        ({"jobDir": True}, "gs://runs", "/gcs/runs", ("implicit-dirs",)),
        ({"bucket": "data", "options": ["file-mode=777"]}, None, "/gcs/data", ("implicit-dirs", "file-mode=777")),
    ],
)
def test_a_file_is_where_its_objects_address_says(
    environment: EnvironmentSpec, mount: dict[str, Any], job_dir: str | None, path: str, options: tuple[str, ...]
) -> None:
    (found,) = planned(environment, mount, job_dir=job_dir).storage.mounts
    assert (found.path, found.options) == (path, options)
    assert found.read_only is not found.is_job_dir


def test_a_bucket_is_for_reading_until_the_job_says_otherwise(environment: EnvironmentSpec) -> None:
    plan = planned(environment, {"bucket": "data"}, {"bucket": "more", "write": True, "prefix": "a"})
    granted = {(grant.bucket, grant.role.rpartition("/")[2]) for grant in plan.identity.grants if grant.use == "mount"}
    assert granted == {("data", "storage.objectViewer"), ("more", "storage.objectUser")}
    container = pod(plan)["spec"]["containers"][0]
    assert [(each["mountPath"], each["readOnly"]) for each in container["volumeMounts"][3:]] == [
        ("/gcs/data", True),
        ("/gcs/more/a", False),
    ]


def test_nothing_is_granted_twice(environment: EnvironmentSpec) -> None:
    """The packages' bucket is readable already, and so is the job dir's, which may be written to."""
    plan = planned(environment, {"bucket": "packages"}, {"bucket": "runs"}, job_dir="gs://runs")
    assert [grant for grant in plan.identity.grants if grant.use] == []
    plan = planned(environment, {"bucket": "packages", "write": True})
    assert [grant_name(plan, grant) for grant in plan.identity.grants if grant.use] == [
        "storage.objectUser-packages-mount"
    ]
    names = [(each.type, each.name) for each in declared_resources(plan)]
    assert len(names) == len(set(names))


def test_a_given_account_keeps_what_its_owner_gave_it(environment: EnvironmentSpec) -> None:
    plan = planned(environment, {"bucket": "data"}, serviceAccount="me@project-1.iam.gserviceaccount.com")
    assert [grant for grant in plan.identity.grants if grant.bucket == "data"] == []


def test_the_pod_asks_for_the_sidecar_and_leaves_room_for_it(environment: EnvironmentSpec) -> None:
    without, with_mount = planned(environment), planned(environment, {"bucket": "data"})
    assert "annotations" not in pod(without)["metadata"]
    asked = pod(with_mount)["metadata"]["annotations"]
    assert asked["gke-gcsfuse/volumes"] == "true"
    (before,), (after,) = without.groups, with_mount.groups
    assert before.resources.cpu_millis - after.resources.cpu_millis == 250
    assert before.resources.memory_mib - after.resources.memory_mib == 256
    assert (asked["gke-gcsfuse/cpu-request"], asked["gke-gcsfuse/memory-request"]) == ("250m", "256Mi")
    volume = pod(with_mount)["spec"]["volumes"][3]["csi"]
    assert volume["driver"] == "gcsfuse.csi.storage.gke.io"
    assert "skipCSIBucketAccessCheck" not in volume["volumeAttributes"]


def test_the_driver_does_not_ask_for_a_list_that_the_job_may_not_have(environment: EnvironmentSpec) -> None:
    plan = planned(environment, {"jobDir": True}, job_dir="gs://sandbox-encamp-artifacts/jobs/job/output/run")
    attributes = pod(plan)["spec"]["volumes"][3]["csi"]["volumeAttributes"]
    assert attributes["skipCSIBucketAccessCheck"] == "true"
    assert "only-dir=jobs/job/output/run" in attributes["mountOptions"].split(",")


def test_files_belong_to_who_runs_the_trainer(environment: EnvironmentSpec) -> None:
    def options(**block: Any) -> list[str]:
        data = {"jobId": "job", "trainingInput": RUNTIME, "encamp": block}
        plan = plan_job(parse_job(data, source="test").job, environment)
        found: str = pod(plan)["spec"]["volumes"][3]["csi"]["volumeAttributes"]["mountOptions"]
        return found.split(",")

    assert options(mounts=[{"bucket": "data"}])[-2:] == ["uid=65532", "gid=65532"]
    assert options(mounts=[{"bucket": "data"}], runAs="IMAGE") == ["implicit-dirs"]
    assert options(mounts=[{"bucket": "data", "options": ["uid=1000"]}]) == ["implicit-dirs", "uid=1000"]


@pytest.mark.parametrize(
    ("mounts", "job_dir", "where", "message"),
    [
        (
            [{"bucket": "sandbox-encamp-artifacts", "prefix": "jobs"}], None, "encamp.mounts[0].bucket",
            "gs://sandbox-encamp-artifacts holds the results of every job",
        ),
        ([{"jobDir": True}, {"bucket": "runs"}], "gs://runs/7", "encamp.mounts[1]", "/gcs/runs and /gcs/runs/7 lie"),
        ([{"jobDir": True}], "gs://runs/a,b", "encamp.mounts[0].jobDir", "cannot be mounted"),
    ],
)  # fmt: skip
def test_what_cannot_be_mounted_is_refused(
    environment: EnvironmentSpec, mounts: list[dict[str, Any]], job_dir: str | None, where: str, message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        planned(environment, *mounts, job_dir=job_dir)
    assert caught.value.where == where
    assert message in caught.value.what
    assert caught.value.hint
