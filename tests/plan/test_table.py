"""What a person reads of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.document import job_document
from encamp.plan.job import plan_job
from encamp.plan.table import job_table
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

RUNTIME: dict[str, Any] = {
    "scaleTier": "CUSTOM",
    "region": "us-central1",
    "masterType": "n1-standard-4",
    "workerCount": 4,
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
}


def planned(environment: EnvironmentSpec, worker: dict[str, Any], **block: Any) -> JobPlan:
    data = {"jobId": "job", "trainingInput": RUNTIME, "encamp": {"machines": {"worker": worker}, **block}}
    return plan_job(parse_job(data, source="test").job, environment)


def test_where_machines_stand_and_what_they_draw_on_is_shown(environment: EnvironmentSpec) -> None:
    worker = {"gpu": {"type": "NVIDIA_TESLA_A100", "count": 8}}
    anywhere = planned(environment, worker)
    assert "us-central1-a/b/c/f" in job_table(anywhere)
    assert job_document(anywhere)["nodePools"][1]["zones"][-1] == "us-central1-f"
    together = planned(environment, worker, placement="COMPACT", zone="us-central1-c")
    assert "us-central1-c, close together" in job_table(together)
    assert job_document(together)["nodePools"][1]["placement"] == "COMPACT"
    table = job_table(together)
    assert [line.split() for line in table.splitlines() if "NVIDIA_A100_GPUS" in line] == [
        ["NVIDIA_A100_GPUS", "us-central1", "32"]
    ]
    needs = {need["quota"]: need["amount"] for need in job_document(together)["quotas"]}
    assert (needs["NVIDIA_A100_GPUS"], needs["INSTANCES"]) == (32, 5)


def test_containers_with_other_rights_are_shown_apart(environment: EnvironmentSpec) -> None:
    environment = environment.model_copy(update={"runtime_images": {"2.11-tpu": "gcr.io/ours/runtime:2.11-tpu"}})
    table = job_table(planned(environment, {"tpu": {"version": "v6e", "topology": "4x4"}}))
    assert "Container of master\n" in table
    assert "user     65532, without rights\n" in table
    assert "user     the image's own\n" in table


def test_mounts_are_shown_with_what_they_are_for(environment: EnvironmentSpec) -> None:
    mounts = [{"bucket": "data", "prefix": "a"}, {"bucket": "more", "write": True}]
    plan = planned(environment, {"machineType": "n1-standard-4"}, mounts=mounts)
    assert "files    /gcs/data/a (for reading)\n" in job_table(plan)
    assert "files    /gcs/more (for reading and writing)\n" in job_table(plan)
    assert job_document(plan)["storage"]["mounts"][0] == {
        "bucket": "data",
        "folder": "a",
        "path": "/gcs/data/a",
        "readOnly": True,
    }


def test_rdma_is_shown_where_replicas_have_it(environment: EnvironmentSpec) -> None:
    machine = {"gpu": {"type": "NVIDIA_H200_141GB", "count": 8}}
    image = {"imageUri": "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"}
    data: dict[str, Any] = {
        "jobId": "job",
        "trainingInput": {"region": "us-central1", "scaleTier": "CUSTOM", "masterConfig": image, "workerCount": 1},
        "encamp": {"machines": {"master": machine, "worker": machine}},
    }
    shown = job_table(plan_job(parse_job(data, source="test").job, environment))
    assert "network  RDMA between machines, 8 interfaces each" in shown
    training = {**data["trainingInput"], "workerCount": 0}
    alone = {**data, "trainingInput": training, "encamp": {"machines": {"master": machine}}}
    assert "RDMA" not in job_table(plan_job(parse_job(alone, source="test").job, environment))
