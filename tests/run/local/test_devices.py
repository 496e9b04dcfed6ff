from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.plan.model import Accelerator
from encamp.run.local.devices import DevicePlan, divide, local_gpus
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from pathlib import Path

REPLICAS = {
    "master-replica-0": Role.MASTER,
    "worker-replica-0": Role.WORKER,
    "worker-replica-1": Role.WORKER,
    "ps-replica-0": Role.PARAMETER_SERVER,
}
SMI = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0b6a9a1c-1111-2222-3333-444455556666)
"""


def seen(plan: DevicePlan) -> dict[str, str]:
    return {name: env["CUDA_VISIBLE_DEVICES"] for name, env in plan.env.items()}


def driver(folder: Path, gpus: int, *, partitioned: bool = False) -> Path:
    for index in range(gpus):
        (folder / "gpus" / f"0000:0{index}:00.0").mkdir(parents=True)
    if partitioned:
        (folder / "capabilities" / "gpu0" / "mig" / "gi1" / "ci0").mkdir(parents=True)
    return folder


def never() -> str:
    raise AssertionError("nvidia-smi was asked")


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        ("0,1", ("0", "1")),
        (" 3 , GPU-5d5ba0d6 ,MIG-cba663e8-9bed", ("3", "GPU-5d5ba0d6", "MIG-cba663e8-9bed")),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("NoDevFiles", ()),
        ("0,0", ("0",)),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(tmp_path: Path, given: str, gpus: tuple[str, ...]) -> None:
    assert local_gpus({"CUDA_VISIBLE_DEVICES": given}, driver=driver(tmp_path, 4), smi=never) == gpus


def test_the_driver_is_asked_by_its_files(tmp_path: Path) -> None:
    assert local_gpus({}, driver=driver(tmp_path, 3), smi=never) == ("0", "1", "2")


def test_partitions_and_machines_without_those_files_are_listed_by_the_drivers_own_program(tmp_path: Path) -> None:
    gpus = (
        "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
        "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
        "GPU-0b6a9a1c-1111-2222-3333-444455556666",
    )
    assert local_gpus({}, driver=driver(tmp_path, 2, partitioned=True), smi=lambda: SMI) == gpus
    assert local_gpus({}, driver=tmp_path / "none", smi=lambda: SMI) == gpus


def test_the_drivers_program_may_be_missing_fail_or_be_found_on_the_path(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert local_gpus({"PATH": str(tmp_path)}, driver=none) == ()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n[ \"$1\" = -L ] && echo 'GPU 0: T4 (UUID: GPU-aa)'\n")
    program.chmod(0o755)
    assert local_gpus({"PATH": str(tmp_path)}, driver=none) == ("GPU-aa",)
    program.write_text("#!/bin/sh\necho 'GPU 0: T4 (UUID: GPU-aa)'; exit 9\n")
    assert local_gpus({"PATH": str(tmp_path)}, driver=none) == ()


def test_replicas_that_compute_share_all_gpus_and_none_has_another_ones() -> None:
    plan = divide(("0", "1", "2", "3"), REPLICAS)
    assert seen(plan) == {
        "master-replica-0": "0,3",
        "worker-replica-0": "1",
        "worker-replica-1": "2",
        "ps-replica-0": "-1",
    }
    assert plan.notes == ("GPUs: master-replica-0 sees 0,3, worker-replica-0 sees 1, worker-replica-1 sees 2",)


def test_a_process_alone_sees_what_the_command_sees() -> None:
    assert divide(("0", "1"), {"master-replica-0": Role.MASTER}) == DevicePlan()


def test_where_gpus_do_not_reach_for_all_none_is_used() -> None:
    plan = divide(("0",), REPLICAS)
    assert set(seen(plan).values()) == {"-1"}
    assert "1 GPU cannot be divided over 3 replicas that compute" in plan.notes[0]


def test_without_gpus_and_without_a_request_nothing_is_said_or_set() -> None:
    assert divide((), REPLICAS) == DevicePlan()
    assert divide((), REPLICAS, {}) == DevicePlan()


def test_a_job_gets_what_it_asks_for_and_no_more() -> None:
    asked = {name: Accelerator("nvidia-tesla-t4", 1) for name in list(REPLICAS)[:3]}
    assert seen(divide(("0", "1", "2", "3", "4"), REPLICAS, asked)) == {
        "master-replica-0": "0",
        "worker-replica-0": "1",
        "worker-replica-1": "2",
        "ps-replica-0": "-1",
    }
    assert set(seen(divide(("0",), REPLICAS, {})).values()) == {"-1"}


def test_what_is_short_is_short_for_all_alike() -> None:
    asked = {"master-replica-0": Accelerator("nvidia-l4", 4), "worker-replica-0": Accelerator("nvidia-l4", 2)}
    plan = divide(("0", "1", "2"), REPLICAS, asked)
    assert seen(plan)["master-replica-0"] == "0,2"
    assert seen(plan)["worker-replica-0"] == "1"
    assert plan.notes[1] == (
        "this machine has fewer GPUs than the job asks for: master-replica-0 gets 2 of 4, worker-replica-0 gets 1 of 2"
    )


def test_accelerators_that_are_not_here_are_said_to_be_simulated() -> None:
    asked = {"master-replica-0": Accelerator("nvidia-tesla-v100", 4), "worker-replica-0": Accelerator("nvidia-l4", 1)}
    plan = divide((), REPLICAS, asked)
    assert plan.env == {}
    assert plan.notes == (
        "accelerators are simulated (nvidia-l4, nvidia-tesla-v100): this machine has no GPU; the job runs on CPUs",
    )
    plan = divide(("0",), REPLICAS, asked)
    assert set(seen(plan).values()) == {"-1"}
    assert "simulated" in plan.notes[0]
    assert "1 GPU cannot be divided over 2 replicas" in plan.notes[0]


def test_chips_of_tpus_are_simulated_beside_gpus_that_are_here() -> None:
    asked = {
        "master-replica-0": Accelerator("tpu-v5-lite-podslice", 4),
        "worker-replica-0": Accelerator("nvidia-l4", 1),
    }
    plan = divide(("0",), REPLICAS, asked)
    assert seen(plan)["worker-replica-0"] == "0"
    assert seen(plan)["master-replica-0"] == "-1"
    assert plan.notes[1] == (
        "accelerators are simulated (tpu-v5-lite-podslice): this machine has no TPU; the job runs on CPUs"
    )
