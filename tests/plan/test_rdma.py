"""RDMA between the GPUs of several machines: who claims network interfaces, and what a plan says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.kinds.objects import CLAIM_TEMPLATE
from encamp.plan.declared import declared_resources
from encamp.plan.environment.gke import node_features
from encamp.plan.job import plan_job
from encamp.plan.machines.room import replica_room
from encamp.plan.machines.system_pods import NodeFeature
from encamp.plan.manifests.job import render_manifests
from encamp.spec.data_files import data_file
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
MODULE = {"packageUris": ["gs://packages/trainer.tar.gz"], "pythonModule": "trainer.task"}
LABEL = "cloud.google.com/gke-networking-dra-driver"
H200, B200, GB200 = ("NVIDIA_H200_141GB", 8), ("NVIDIA_B200", 8), ("NVIDIA_GB200", 4)

#: Google gives GB200 machines by reservation only.
RESERVED = {"provisioning": "RESERVATION", "reservation": "training", "zone": "us-central1-a"}


def planned(
    environment: EnvironmentSpec, gpu: tuple[str, int], workers: int, *, queue: str | None = None, **fields: Any
) -> JobPlan:
    machine = {"gpu": {"type": gpu[0], "count": gpu[1]}}
    cluster = {"region": "us-central1", "scaleTier": "CUSTOM", "masterConfig": {"imageUri": IMAGE}}
    count = {"workerCount": workers} if workers else {}
    roles = {"master": machine, **({"worker": machine} if workers else {})}
    block = {"machines": roles, **({"queue": queue} if queue else {}), **(RESERVED if gpu == GB200 else {})}
    data = {"jobId": "job", "trainingInput": cluster | MODULE | count | fields, "encamp": block}
    return plan_job(parse_job(data, source="test").job, environment)


def about(plan: JobPlan, word: str) -> list[str]:
    return [warning for warning in plan.warnings if word in warning]


@pytest.mark.parametrize(("gpu", "nics"), [(H200, 8), (B200, 8), (GB200, 4)])
def test_every_replica_claims_the_network_interfaces_of_its_machine(
    environment: EnvironmentSpec, gpu: tuple[str, int], nics: int
) -> None:
    plan = planned(environment, gpu, workers=1)
    (pool,) = plan.node_pools
    assert (pool.labels[LABEL], pool.rdma_nics, pool.network_profile) == ("true", nics, "auto")
    manifests = render_manifests(plan)
    (template,) = manifests.claim_templates
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "mrdma.google.com",
        "allocationMode": "ExactCount",
        "count": nics,
    }
    jobs = manifests.job_set["spec"]["replicatedJobs"]
    pods = [job["template"]["spec"]["template"]["spec"] for job in jobs]
    assert [pod["resourceClaims"] for pod in pods] == [
        [{"name": "rdma", "resourceClaimTemplateName": template["metadata"]["name"]}]
    ] * 2
    assert all(pod["containers"][0]["resources"]["claims"] == [{"name": "rdma"}] for pod in pods)
    declared = [one.cloud for one in declared_resources(plan) if one.type == CLAIM_TEMPLATE.token]
    assert declared == [f"{plan.namespace}/{template['metadata']['name']}"]


@pytest.mark.parametrize("gpu", [H200, GB200])
def test_the_plugin_is_for_the_cpus_of_the_machine(environment: EnvironmentSpec, gpu: tuple[str, int]) -> None:
    manifests = render_manifests(planned(environment, gpu, workers=1))
    pod = manifests.job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (init,) = pod["initContainers"]
    arm = gpu == GB200
    assert ("-arm64:" in init["image"]) is arm
    assert (pod["nodeSelector"].get("kubernetes.io/arch") == "arm64") is arm
    assert any(one["key"] == "kubernetes.io/arch" for one in pod["tolerations"]) is arm
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "nccl-plugin"]
    assert mount["mountPath"] == "/usr/local/gib"
    variables = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert variables["ENCAMP_NCCL_PLUGIN"] == "/usr/local/gib"


def test_one_machine_alone_claims_nothing(environment: EnvironmentSpec) -> None:
    plan = planned(environment, H200, workers=0)
    assert plan.node_pools[0].rdma_nics == 0
    assert LABEL not in plan.node_pools[0].labels
    assert not render_manifests(plan).claim_templates


def test_trials_of_one_machine_claim_nothing_however_many_there_are(environment: EnvironmentSpec) -> None:
    parameter = {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}
    study = {"goal": "MAXIMIZE", "maxTrials": 4, "maxParallelTrials": 4, "params": [parameter]}
    alone = planned(environment, H200, workers=0, hyperparameters=study)
    assert (alone.node_pools[0].max_nodes, alone.node_pools[0].rdma_nics) == (4, 0)
    pairs = planned(environment, H200, workers=1, hyperparameters=study)
    assert (pairs.node_pools[0].max_nodes, pairs.node_pools[0].rdma_nics) == (8, 8)


def test_the_driver_has_room_beside_the_replica(environment: EnvironmentSpec) -> None:
    plan = planned(environment, H200, workers=1)
    features = node_features(environment)
    group = plan.groups[0]
    driver = replica_room(group.machine_type, group.accelerator, features | {NodeFeature.NETWORK_DRIVER}).request
    assert (group.resources.cpu_millis, group.resources.memory_mib) == (driver.cpu_millis, driver.memory_mib)
    without = replica_room(group.machine_type, group.accelerator, features).request
    assert (without.cpu_millis, without.memory_mib) >= (driver.cpu_millis, driver.memory_mib)


def test_other_networks_are_warned_about_with_the_price(environment: EnvironmentSpec) -> None:
    plan = planned(environment, ("NVIDIA_H100_MEGA_80GB", 8), workers=3)
    assert plan.cost is not None
    (machines,) = [part for part in plan.cost.parts if part.kind == "machines"]
    (warning,) = about(plan, "GPUDirect-TCPXO is not set up")
    assert f"4 x a3-megagpu-8g, {machines.hourly:.2f} USD an hour" in warning
    assert "a3-ultragpu-8g" in warning
    assert not about(planned(environment, ("NVIDIA_H100_MEGA_80GB", 8), workers=0), "GPUDirect")


def test_a_program_of_the_images_own_has_to_load_the_plugin(environment: EnvironmentSpec) -> None:
    own = {"masterConfig": {"imageUri": IMAGE, "containerCommand": ["/train"]}, "packageUris": None}
    plan = planned(environment, H200, workers=1, **own, pythonModule=None)
    (warning,) = about(plan, "NCCL's plugin")
    assert "set_nccl_env.sh" in warning
    assert not about(planned(environment, H200, workers=1), "NCCL's plugin")


def test_machines_that_speak_by_nvlink_too_are_told_of(environment: EnvironmentSpec) -> None:
    assert about(planned(environment, GB200, workers=1), "ComputeDomains")
    assert not about(planned(environment, B200, workers=1), "ComputeDomains")


def test_what_an_adopted_cluster_needs_is_said() -> None:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts"}
    quotas = [{"cpu": 4096, "memoryGib": 65536}, {"accelerator": "NVIDIA_H200_141GB", "count": 64}]
    queues = {"teams": {"research": {"quotas": quotas}}}
    own = parse_environment(data | {"queues": queues}, project="lab-project", source="test")
    assert not about(planned(own, H200, workers=1, queue="research"), "wait in vain")
    given = data | {"adopt": ["cluster"], "controllers": "given", "queues": queues}
    adopted = parse_environment(given, project="lab-project", source="test")
    plan = planned(adopted, H200, workers=1, queue="research")
    (warning,) = about(plan, "wait in vain")
    assert data_file("rdma")["leastGke"] in warning
    assert about(plan, "KueueDRARejectWorkloadsWhenDRADisabled")
