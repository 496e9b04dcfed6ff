from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import EncampError, PlanError
from encamp.plan.job import plan_job
from encamp.plan.machines import catalog
from encamp.spec import machines_today
from encamp.spec.data_files import data_file
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec


def elsewhere(region: str, **more: Any) -> EnvironmentSpec:
    # Its own image, so that machines are all that matters.
    images = {"2.11": "us-central1-docker.pkg.dev/ours/encamp/runtime:2.11"}
    data = {"name": "ours", "region": region, "artifactsBucket": "artifacts", "runtimeImages": images, **more}
    return parse_environment(data, project="real-project", source="test")


def planned(
    machines: Mapping[str, Any],
    environment: EnvironmentSpec | None = None,
    block: Mapping[str, Any] | None = None,
    **fields: Any,
) -> JobPlan:
    environment = environment or elsewhere("us-central1")
    training_input = {
        "scaleTier": "CUSTOM",
        "region": environment.region,
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://packages/trainer.tar.gz"],
        "pythonModule": "trainer.task",
        **fields,
    }
    job = {"jobId": "job", "trainingInput": training_input, "encamp": {"machines": machines, **(block or {})}}
    return plan_job(parse_job(job, source="test").job, environment)


def pool(plan: JobPlan, role: str = "master") -> NodePoolPlan:
    name = next(group.node_pool for group in plan.groups if group.role.value == role)
    return next(each for each in plan.node_pools if each.name == name)


def got(gpu: str) -> dict[str, Any]:
    """A way in which Google gives every machine with such GPUs."""
    if gpu == "NVIDIA_GB200":
        return {"provisioning": "RESERVATION", "reservation": "mine", "zone": "us-central1-a"}
    return {"provisioning": "SPOT"}


@pytest.mark.parametrize("gpu", GpuType)
def test_every_gpu_of_today_is_on_the_smallest_machine_that_has_it(gpu: GpuType) -> None:
    found = catalog.gpu(gpu.value)
    for count in found.counts:
        shape = pool(planned({"master": {"gpu": {"type": gpu.value, "count": count}}}, block=got(gpu.value)))
        assert shape.accelerator is not None
        assert (shape.accelerator.type, shape.accelerator.count) == (found.gke, count)
        assert shape.machine_type == catalog.smallest_machine(found, count)
        others = [name for name in found.machines if data_file("machines")[name]["gpu"]["count"] == count]
        assert all(
            data_file("machines")[shape.machine_type]["vcpu"] <= data_file("machines")[name]["vcpu"] for name in others
        )


@pytest.mark.parametrize(
    ("gpu", "count", "machine"),
    [
        ("NVIDIA_L4", 1, "g2-standard-4"),
        ("NVIDIA_TESLA_A100", 16, "a2-megagpu-16g"),
        ("NVIDIA_TESLA_T4", 1, "n1-standard-4"),
        ("NVIDIA_TESLA_V100", 8, "n1-standard-4"),
        ("NVIDIA_GB200", 4, "a4x-highgpu-4g"),
    ],
)
def test_the_smallest_machine_of_some_gpus(gpu: str, count: int, machine: str) -> None:
    plan = planned({"master": {"gpu": {"type": gpu, "count": count}}}, block=got(gpu))
    assert pool(plan).machine_type == machine


@pytest.mark.parametrize("version", TpuVersion)
def test_every_slice_has_a_plan_whose_hosts_have_all_its_chips(version: TpuVersion) -> None:
    zone = catalog.tpu_zones(version.value)[0]
    environment = elsewhere(zone.rpartition("-")[0])
    small = [found for found in machines_today.slices(version.value).values() if found.hosts <= 64]
    for found in small:
        several = found.hosts > 1
        machines = {"worker" if several else "master": {"tpu": {"version": version, "topology": found.topology}}}
        fields: dict[str, Any] = {"masterType": "n1-standard-4", "workerCount": found.hosts} if several else {}
        chosen = pool(planned(machines, environment, **fields), "worker" if several else "master")
        assert chosen.accelerator is not None
        assert chosen.max_nodes * chosen.accelerator.count == found.chips
        assert (chosen.tpu_hosts, chosen.zone, chosen.multi_host) == (found.hosts, zone, several)
        assert (chosen.workload_policy is not None) == (several and version is TpuVersion.TPU7X)


@pytest.mark.parametrize(
    ("version", "chips", "machine", "topology", "hosts"),
    [
        ("v6e", 8, "ct6e-standard-8t", "2x4", 1),
        ("v5e", 8, "ct5lp-hightpu-8t", "2x4", 1),
        ("v5e", 16, "ct5lp-hightpu-4t", "4x4", 4),
        ("v5p", 192, "ct5p-hightpu-4t", "4x4x12", 48),
        ("7x", 128, "tpu7x-standard-4t", "4x4x8", 32),
        ("v4", 192, "ct4p-hightpu-4t", "4x4x12", 48),
    ],
)
def test_chips_become_the_slice_with_the_fewest_hosts(
    version: str, chips: int, machine: str, topology: str, hosts: int
) -> None:
    found = next(each for each in machines_today.slices(version).values() if each.chips == chips)
    assert (found.machine_type, found.topology, found.hosts) == (machine, topology, hosts)


def test_a_machine_type_forces_the_other_hosts_of_a_slice() -> None:
    machines = {"worker": {"machineType": "ct6e-standard-4t", "tpu": {"version": "v6e", "topology": "2x4"}}}
    found = pool(planned(machines, masterType="n1-standard-4", workerCount=2), "worker")
    assert (found.machine_type, found.tpu_hosts, found.max_nodes) == ("ct6e-standard-4t", 2, 2)


def test_a_region_without_the_tpu_is_refused_with_the_regions_that_have_it() -> None:
    with pytest.raises(PlanError, match="europe-west1 has no TPU v5e") as caught:
        planned({"master": {"tpu": {"version": "v5e", "topology": "2x2"}}}, elsewhere("europe-west1"))
    assert caught.value.where == "encamp.machines.master"
    assert "us-west4" in str(caught.value)


def test_a_zone_of_the_environment_is_taken_where_it_has_the_tpu() -> None:
    machines = {"master": {"tpu": {"version": "v3", "topology": "2x2"}}}
    assert pool(planned(machines, elsewhere("us-central1", zones=["us-central1-b"]))).zone == "us-central1-b"
    assert pool(planned(machines, elsewhere("us-central1", zones=["us-central1-f"]))).zone == "us-central1-a"


@pytest.mark.parametrize(
    ("provisioning", "with_gpu", "without"),
    [
        ("ON_DEMAND", "ON_DEMAND", "ON_DEMAND"),
        ("SPOT", "SPOT", "SPOT"),
        ("FLEX_START", "FLEX_START", "ON_DEMAND"),
        ("QUEUED", "QUEUED", "ON_DEMAND"),
        ("RESERVATION", "RESERVATION", "ON_DEMAND"),
    ],
)
def test_machines_without_accelerators_are_on_demand_or_spot(provisioning: str, with_gpu: str, without: str) -> None:
    block = {"provisioning": provisioning} | (
        {"reservation": "ours", "zone": "us-central1-a"} if provisioning == "RESERVATION" else {}
    )
    plan = planned(
        {"worker": {"gpu": {"type": "NVIDIA_L4"}}},
        block=block,
        masterType="n1-standard-4",
        workerCount=1,
        scheduling={"maxRunningTime": "604800s"},
    )
    assert (pool(plan, "worker").provisioning, pool(plan).provisioning) == (with_gpu, without)
    assert pool(plan, "worker").reservation == block.get("reservation")
    assert pool(plan).reservation is None
    longest = pool(plan, "worker").max_run_duration_seconds
    assert longest == 604_800 if with_gpu in {"FLEX_START", "QUEUED"} else longest > 604_800


def test_tpu_variables_say_that_the_tpu_is_the_machines_own() -> None:
    plan = planned(
        {"worker": {"tpu": {"version": "v5e", "topology": "2x2"}}}, masterType="n1-standard-4", workerCount=1
    )
    master, worker = plan.groups
    assert "TPU_CONFIG" not in master.env
    assert worker.env["TPU_NAME"] == "local"
    config = {"project": "real-project", "zone": "us-central1-a", "tpu_node_name": "local"}
    assert json.loads(worker.env["TPU_CONFIG"]) == config


@pytest.mark.parametrize("name", sorted(machines_today.machine_types()))
def test_every_machine_takes_a_boot_disk(name: str) -> None:
    assert machines_today.disk_types(name)


@pytest.mark.parametrize("table", ["machines", "gpus", "tpus", "tiers", "disks", "regions", "ai_platform_tpus"])
def test_every_entry_of_the_catalog_has_a_source(table: str) -> None:
    def sourced(entry: Any, *, covered: bool) -> bool:
        if not isinstance(entry, dict):
            return True
        covered = covered or bool(entry.get("source"))
        nested = [value for value in entry.values() if isinstance(value, dict)]
        leaf = any(key in entry for key in ("machineType", "vcpu", "gke", "zones", "types", "offered"))
        return (covered or not leaf) and all(sourced(value, covered=covered) for value in nested)

    assert all(sourced(entry, covered=False) for entry in data_file(table).values())


@pytest.mark.parametrize(
    "machines", [{"master": {"machineType": "ct5lp-hightpu-4t"}}, {"master": {"gpu": {"count": 2}}}]
)
def test_half_a_request_is_refused(machines: Mapping[str, Any]) -> None:
    with pytest.raises(EncampError):
        planned(machines)


def test_every_machine_with_gpus_stands_among_those_of_its_gpu() -> None:
    """A job that names only the GPU gets no other machine than these."""
    fixed = {name: found["gpu"]["type"] for name, found in data_file("machines").items() if found.get("gpu")}
    assert len(fixed) > 20
    assert {name: kind for name, kind in fixed.items() if name not in catalog.gpu(kind).machines} == {}
