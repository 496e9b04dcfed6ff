"""Which quotas a job draws on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.job import plan_job
from encamp.plan.machines import catalog
from encamp.plan.machines.quotas import _cpus, quotas
from encamp.spec import machines_today
from encamp.spec.data_files import data_file
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

INPUT: dict[str, Any] = {"region": "us-central1", "scaleTier": "CUSTOM", "masterConfig": {"imageUri": "gcr.io/p/i"}}


def needs(environment: EnvironmentSpec, training_input: dict[str, Any], **block: Any) -> dict[str, int]:
    data = {"jobId": "job", "trainingInput": INPUT | training_input, "encamp": block}
    return {need.name: need.amount for need in quotas(plan_job(parse_job(data, source="test").job, environment))}


def machines(**roles: Any) -> dict[str, Any]:
    return {"machines": roles}


def test_machines_of_one_family_are_added_up(environment: EnvironmentSpec) -> None:
    asked = {"masterType": "n1-standard-8", "workerType": "n1-standard-4", "workerCount": 3}
    assert needs(environment, asked) == {"CPUS": 20, "INSTANCES": 4, "SSD_TOTAL_GB": 400}


def test_spot_and_flex_start_draw_on_quotas_of_their_own(environment: EnvironmentSpec) -> None:
    master = machines(master={"gpu": {"type": "NVIDIA_L4", "count": 2}})
    usual = needs(environment, {}, **master)
    assert usual["NVIDIA_L4_GPUS"] == 2
    assert usual["CPUS_PER_VM_FAMILY (vm_family: G2)"] == 24
    for provisioning in ("SPOT", "FLEX_START", "QUEUED"):
        found = needs(environment, {}, provisioning=provisioning, **master)
        assert found["PREEMPTIBLE_NVIDIA_L4_GPUS"] == 2
        assert found["PREEMPTIBLE_CPUS"] == 24
        assert "NVIDIA_L4_GPUS" not in found


def test_a_reservation_holds_its_quota_already(environment: EnvironmentSpec) -> None:
    master = machines(master={"gpu": {"type": "NVIDIA_B200", "count": 8}})
    found = needs(environment, {}, provisioning="RESERVATION", reservation="mine", zone="us-central1-b", **master)
    assert found == {"HDB_TOTAL_GB": 100, "INSTANCES": 1}


def test_chips_of_a_slice_count_and_not_its_cpus(environment: EnvironmentSpec) -> None:
    worker = machines(worker={"tpu": {"version": "v6e", "topology": "4x4"}})
    found = needs(environment, {"masterType": "n1-standard-4", "workerCount": 4}, **worker)
    assert found["TPUS_PER_TPU_FAMILY (tpu_family: CT6E)"] == 16
    assert found["CPUS"] == 4
    five = needs(environment, {}, **machines(master={"tpu": {"version": "v5e", "chips": 8}}))
    assert five["TPU_LITE_PODSLICE_V5"] == 8


@pytest.mark.parametrize("kind", list(GpuType))
def test_every_gpu_and_every_machine_has_quotas(kind: GpuType) -> None:
    entry = data_file("quotas")["gpus"][kind.value]
    assert entry["metric"]
    assert entry["source"]
    assert all(_cpus(name)["metric"] for name in catalog.gpu(kind.value).machines)


def test_every_machine_tpu_and_disk_of_the_catalog_has_a_quota() -> None:
    table = data_file("quotas")
    assert all(_cpus(name)["metric"] for name in data_file("machines"))
    assert set(table["tpus"]) == {version.value for version in TpuVersion}
    kinds = {kind for name in machines_today.machine_types() for kind in machines_today.disk_types(name)}
    assert kinds <= set(table["disks"])
