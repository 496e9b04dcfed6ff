"""What Google Cloud would refuse of a job's machines, each rule by its id: a job that breaks it, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from encamp.errors import PlanError, PreconditionError, Problem
from encamp.plan.job import plan_job
from encamp.plan.machines.preconditions import PRECONDITIONS, PoolCase, Situation, check
from encamp.plan.machines.shapes import Shape
from encamp.plan.model import Accelerator, JobPlan, NodePoolPlan, RequestedMachine
from encamp.plan.replicas import RoleRequest
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job
from encamp.spec.roles import Role
from encamp.spec.training import ReplicaConfig

IMAGE = {"masterConfig": {"imageUri": "gcr.io/p/i"}, "scaleTier": "CUSTOM"}


def environment(region: str = "us-central1", **more: Any) -> EnvironmentSpec:
    data = {"name": "e", "region": region, "artifactsBucket": "my-results", "otherRegions": "refuse"}
    return parse_environment(data | more, project="my-project", source="test")


def planned(place: EnvironmentSpec, training_input: dict[str, Any] | None = None, **block: Any) -> JobPlan:
    asked = IMAGE | {"region": place.region} | (training_input or {})
    asked = {name: value for name, value in asked.items() if value is not None}
    return plan_job(parse_job({"jobId": "job", "trainingInput": asked, "encamp": block}, source="test").job, place)


def refused(place: EnvironmentSpec, training_input: dict[str, Any] | None = None, **block: Any) -> list[Problem]:
    with pytest.raises(PreconditionError) as caught:
        planned(place, training_input, **block)
    return list(caught.value.problems)


def gpu(kind: str, count: int = 8) -> dict[str, Any]:
    return {"gpu": {"type": kind, "count": count}}


def tpu(version: str, topology: str) -> dict[str, Any]:
    return {"tpu": {"version": version, "topology": topology}}


def alone(machine: dict[str, Any]) -> dict[str, Any]:
    return {"machines": {"master": machine}}


H200, A100 = gpu("NVIDIA_H200_141GB"), gpu("NVIDIA_TESLA_A100")
FOUR = {"masterType": "n1-standard-4", "workerCount": 4}
TOGETHER: dict[str, Any] = {"placement": "COMPACT", "zone": "us-central1-b"}
RESERVED = {"provisioning": "RESERVATION", "reservation": "mine", "zone": "us-central1-a"}
STOCK_IMAGE = "tensorflow/tensorflow:2.11.0"
STOCK: dict[str, Any] = {
    "masterConfig": None,
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
}
SLICE = {"masterType": "n1-standard-4", "workerCount": 4}
STUDY: dict[str, Any] = {
    "maxTrials": 6,
    "params": [{"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["a", "b"]}],
}
WIDE: dict[str, Any] = {"podsCidr": "10.128.0.0/9", "subnetworkCidr": "10.64.0.0/12"}

#: By id: environment, training input, encamp's block, where it is said, a part of what, a part of what to try.
BROKEN: dict[str, tuple[EnvironmentSpec, dict[str, Any], dict[str, Any], str, str, str]] = {
    "G01": (
        environment("us-west2"), {}, alone(gpu("NVIDIA_A100_80GB", 1)), "encamp.machines.master",
        "us-west2 has no a2-ultragpu-1g", "us-central1, us-east4, us-east5",
    ),
    "G02": (
        environment(), {}, alone(H200) | {"zone": "us-central1-f"}, "encamp.zone",
        "us-central1-f has no a3-ultragpu-8g", "us-central1-b",
    ),
    "G03": (
        environment(), {}, alone(A100) | {"provisioning": "RESERVATION", "reservation": "mine"}, "encamp.zone",
        "a reservation is in one zone", "us-central1-a, us-central1-b",
    ),
    "G04": (
        environment(), FOUR, {**TOGETHER, "machines": {"worker": {"machineType": "e2-standard-8"}}},
        "encamp.machines.worker", "e2-standard-8 cannot be placed COMPACT", "c2, g2, n2",
    ),
    "G05": (
        environment(**WIDE), FOUR | {"workerCount": 1501},
        {**TOGETHER, "machines": {"worker": {"machineType": "c2-standard-4"}}},
        "encamp.machines.worker", "1501 machines are more than the 1500", "leave placement out",
    ),
    "G06": (
        environment(), FOUR, {**TOGETHER, "provisioning": "FLEX_START", "machines": {"worker": A100}},
        "encamp.placement", "FLEX_START gives no a2-highgpu-8g", "a3-ultragpu, a4-highgpu",
    ),
    "G07": (
        environment("us-central2"), {}, alone(tpu("v4", "2x2x1")) | {"provisioning": "QUEUED"},
        "encamp.provisioning", "QUEUED gives no TPU v4", "v5e",
    ),
    "G09": (
        environment(podsCidr="10.20.0.0/24"), FOUR | {"workerType": "n1-standard-4"}, {}, "trainingInput",
        "5 machines take 320 addresses of pods; podsCidr 10.20.0.0/24 has 256", "wider podsCidr",
    ),
    "G10": (
        environment(subnetworkCidr="10.10.0.0/29"), FOUR | {"workerType": "n1-standard-4"}, {}, "trainingInput",
        "5 machines are more than subnetworkCidr 10.10.0.0/29 has addresses: 4", "wider subnetworkCidr",
    ),
    "G12": (
        environment(), SLICE | {"hyperparameters": STUDY | {"maxParallelTrials": 2}},
        {"machines": {"worker": tpu("v5e", "4x4")}}, "trainingInput.hyperparameters.maxParallelTrials",
        "2 trials at a time need 2 slices 4x4", "set maxParallelTrials to 1",
    ),
    "G13": (
        environment(), {"masterType": "n2-highcpu-2"}, {}, "trainingInput.masterType",
        "n2-highcpu-2 is too small for a replica: GKE leaves 1338 MiB of memory to pods", "such as n2-standard-2",
    ),
    "G14": (
        environment(), STOCK, alone(gpu("NVIDIA_H100_80GB")), "encamp.machines.master",
        "NVIDIA_H100_80GB needs CUDA 11.8 or newer, and tensorflow/tensorflow:2.11.0-gpu has 11.2", "NVIDIA_L4",
    ),
    "G15": (
        environment(), {"masterConfig": {"imageUri": STOCK_IMAGE}}, alone(gpu("NVIDIA_GB200", 4)) | RESERVED,
        "encamp.machines.master", "a4x-highgpu-4g has arm64 CPUs, and tensorflow/tensorflow:2.11.0 is for amd64",
        "give an image for arm64 by masterConfig.imageUri",
    ),
    "G16": (
        environment("us-central2"), STOCK, alone(tpu("v4", "2x2x1")), "encamp.machines.master",
        "tensorflow/tensorflow:2.11.0 has no TPU support, and the machine has a TPU v4",
        "build what `encamp containerfile 2.11 --tpu` prints and name it as 2.11-tpu in the environment's runtimeImag",
    ),
    "G17": (
        environment(), {}, alone(gpu("NVIDIA_H100_80GB", 4)), "encamp.provisioning",
        "ON_DEMAND gives no a3-highgpu-4g", "use SPOT or FLEX_START or QUEUED, or take machines with 8 GPUs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_what_would_be_refused_is_refused_when_the_job_is_planned(rule: str) -> None:
    place, training_input, block, where, message, hint = BROKEN[rule]
    (problem,) = refused(place, training_input, **block)
    assert (problem.rule, problem.path) == (rule, where)
    assert message in problem.message
    assert hint in str(problem.hint)


@pytest.mark.parametrize(
    ("count", "provisioning", "given"),
    [
        *((count, how, True) for count in (1, 2, 4) for how in ("SPOT", "FLEX_START", "QUEUED")),
        *((count, "ON_DEMAND", False) for count in (1, 2, 4)),
        (8, "ON_DEMAND", True),
        (8, "SPOT", True),
    ],
)
def test_h100_machines_with_few_gpus_are_given_when_there_is_room_or_as_spot(
    count: int, provisioning: str, *, given: bool
) -> None:
    block = alone(gpu("NVIDIA_H100_80GB", count)) | {"provisioning": provisioning}
    if given:
        planned(environment(), **block)
    else:
        assert [problem.rule for problem in refused(environment(), **block)] == ["G17"]


def test_a_reservation_is_of_other_h100_machines_and_the_only_way_to_a_gb200() -> None:
    few = refused(environment(), **alone(gpu("NVIDIA_H100_80GB", 2)), **RESERVED)
    assert [problem.message for problem in few] == ["RESERVATION gives no a3-highgpu-2g"]
    planned(environment(), **alone(gpu("NVIDIA_GB200", 4)), **RESERVED)
    (problem,) = refused(environment(), **alone(gpu("NVIDIA_GB200", 4)))
    assert problem.hint == "use RESERVATION"


def test_what_only_other_clients_know_is_a_warning() -> None:
    warnings = planned(environment(), **alone(H200)).warnings
    assert [each for each in warnings if "Google may give no a3-ultragpu-8g ON_DEMAND" in each]
    assert not [
        each for each in planned(environment(), **alone(H200), provisioning="SPOT").warnings if "give no" in each
    ]


def test_a_slice_is_whole() -> None:
    """No job file leads there; two roles whose machines came to be one pool would."""
    shape = Shape("ct6e-standard-4t", Accelerator("tpu-v6e-slice", 4), "v6e", "4x4", 4)
    whole = next(
        pool
        for pool in planned(environment(), FOUR, machines={"worker": tpu("v6e", "4x4")}).node_pools
        if pool.multi_host
    )
    assert _checked(whole, shape) == []
    (problem,) = _checked(replace(whole, max_nodes=5), shape)
    assert (problem.rule, problem.message) == ("G08", "5 machines are no slice 4x4: it has 4, all or none")


def test_no_replica_has_a_name_that_kubernetes_refuses() -> None:
    pool = planned(environment(), {"masterType": "n1-standard-4"}).node_pools[0]
    request = RoleRequest(
        Role.PARAMETER_SERVER,
        5000,
        RequestedMachine("n1-standard-4", None),
        Shape("n1-standard-4", None),
        ReplicaConfig(),
    )
    assert _checked(pool, request.shape, name="a" * 28, requests=(request,)) == []
    (problem,) = _checked(pool, request.shape, name="a" * 50, requests=(request,))
    assert (problem.rule, problem.path) == ("G11", "jobId")
    assert "66 characters; Kubernetes takes 63" in problem.message


def _checked(
    pool: NodePoolPlan, shape: Shape, *, name: str = "job", requests: tuple[RoleRequest, ...] = ()
) -> list[Problem]:
    try:
        check(Situation(name, environment(), (PoolCase(pool, shape, "here"),), requests))
    except PreconditionError as error:
        return list(error.problems)
    return []


def test_every_precondition_has_a_job_that_breaks_it_and_says_who_says_so() -> None:
    ids = [rule.id for rule in PRECONDITIONS]
    assert ids == sorted(set(ids))
    assert set(ids) == {*BROKEN, "G08", "G11"}
    assert all(rule.sentence.endswith(".") and rule.source for rule in PRECONDITIONS)


def test_all_that_is_refused_is_said_at_once() -> None:
    found = refused(
        environment(),
        FOUR,
        **{**TOGETHER, "zone": "us-central1-a"},
        machines={"worker": H200, "master": tpu("v3", "2x2")},
        provisioning="FLEX_START",
    )
    assert [problem.rule for problem in found] == ["G02", "G07"]
    with pytest.raises(PlanError) as caught:
        planned(environment("europe-west4"), FOUR, **{**TOGETHER, "zone": "europe-west4-c"}, machines={"worker": H200})
    assert str(caught.value).startswith("encamp.zone: [G02] europe-west4-c has no a3-ultragpu-8g\n  try: zones of")


def test_one_zone_of_the_environment_is_the_zone_of_a_reservation() -> None:
    mine = {"provisioning": "RESERVATION", "reservation": "mine"}
    (pool,) = planned(environment(zones=["us-central1-c"]), {}, **alone(A100), **mine).node_pools
    assert (pool.zone, pool.zones) == ("us-central1-c", ("us-central1-c",))
    (pool,) = planned(environment(zones=["us-central1-c"]), {}, **alone(gpu("NVIDIA_L4", 1)), **mine).node_pools
    assert pool.zone == "us-central1-c"
    # Only one zone of the region has the machine, so there is nothing to choose.
    (pool,) = planned(environment(), {}, **alone(H200), **mine).node_pools
    assert pool.zone == "us-central1-b"


def test_machines_are_asked_for_where_google_has_them() -> None:
    (pool,) = planned(environment(), {}, **alone(A100)).node_pools
    assert pool.zones == ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    (pool,) = planned(environment(zones=["us-central1-b", "us-central1-d"]), {}, **alone(A100)).node_pools
    assert pool.zones == ("us-central1-b",)
    (pool,) = planned(environment(zones=["us-central1-d"]), {}, **alone(A100)).node_pools
    assert pool.zones == ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    (pool,) = planned(environment(), {"masterType": "n1-standard-4"}).node_pools
    assert pool.zones == ()


def test_ranges_of_an_adopted_network_are_not_judged() -> None:
    many = {"masterType": "n1-standard-4", "workerType": "n1-standard-4", "workerCount": 4200}
    assert [problem.rule for problem in refused(environment(), many)] == ["G09", "G10"]
    assert planned(environment(adopt=["network"]), many).node_pools[0].max_nodes == 4201


def test_nodes_are_the_environments_own_account() -> None:
    """The project's default account may change nearly everything in many projects; the sandbox's nodes need none."""
    (pool,) = planned(environment(), {"masterType": "n1-standard-4"}).node_pools
    assert str(pool.service_account).startswith("encamp-nodes-")
    (pool,) = planned(
        environment(gke={"nodeServiceAccount": "n@p.iam.gserviceaccount.com"}), {"masterType": "n1-standard-4"}
    ).node_pools
    assert pool.service_account == "n@p.iam.gserviceaccount.com"


def test_disks_and_buckets_have_the_environments_key() -> None:
    key = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
    plan = planned(environment(encryption={"key": key}), {"masterType": "n1-standard-4"})
    assert (plan.node_pools[0].disk_key, plan.storage.key) == (key, key)
    plan = planned(environment(), {"masterType": "n1-standard-4"})
    assert (plan.node_pools[0].disk_key, plan.storage.key) == (None, None)


def test_a_zone_of_another_region_is_stood_in_for() -> None:
    place = environment(otherRegions="stand-in", zones=["us-central1-f"])
    elsewhere = {"region": "europe-west4", "masterType": "n1-standard-4"}
    plan = planned(place, elsewhere, zone="europe-west4-b")
    assert plan.node_pools[0].zones == ("us-central1-f",)
    assert "us-central1-f stands in for europe-west4-b" in plan.warnings
    plan = planned(place, {"region": "us-west1"}, **alone(gpu("NVIDIA_B200")))
    assert plan.node_pools[0].zones == ("us-central1-b",)


def test_flex_start_of_a_tpu_is_where_it_is_known_to_be() -> None:
    flex = alone(tpu("v6e", "2x4")) | {"provisioning": "FLEX_START"}
    plan = planned(environment("us-east5", zones=["us-east5-b"]), {}, **flex)
    assert (plan.node_pools[0].zone, [one for one in plan.warnings if "flex-start" in one]) == ("us-east5-b", [])
    plan = planned(environment(), {}, **flex)
    assert plan.node_pools[0].zone == "us-central1-b"
    (said,) = [one for one in plan.warnings if "flex-start" in one]
    assert said == (
        "whether us-central1-b gives TPU v6e by flex-start is not known; it is said to be in asia-northeast1-b, "
        "us-east5-a, us-east5-b"
    )


def test_only_several_machines_are_placed_together() -> None:
    plan = planned(environment(), FOUR, **TOGETHER, machines={"worker": A100})
    assert {pool.machine_type: pool.compact for pool in plan.node_pools} == {
        "n1-standard-4": False,
        "a2-highgpu-8g": True,
    }
    sliced = planned(environment(), FOUR, **TOGETHER, machines={"worker": tpu("v6e", "4x4")})
    assert not any(pool.compact for pool in sliced.node_pools)


def test_trials_take_turns_on_a_slice_of_several_hosts() -> None:
    plan = planned(environment(), SLICE | {"hyperparameters": STUDY}, machines={"worker": tpu("v5e", "4x4")})
    assert {pool.max_nodes for pool in plan.node_pools} == {1, 4}


def test_machines_of_different_trials_need_not_be_placed_together() -> None:
    study = STUDY | {"maxParallelTrials": 3}
    block = TOGETHER | {"machines": {"master": A100}}
    (pool,) = planned(environment(), {"hyperparameters": study}, **block).node_pools
    assert (pool.max_nodes, pool.compact) == (3, False)
    workers = {"masterType": "n1-standard-4", "workerCount": 2, "hyperparameters": study}
    plan = planned(environment(), workers, **TOGETHER | {"machines": {"worker": A100}})
    assert {(pool.max_nodes, pool.compact) for pool in plan.node_pools} == {(3, False), (6, True)}


def test_replicas_of_all_trials_at_a_time_are_bounded() -> None:
    study = STUDY | {"maxTrials": 2000, "maxParallelTrials": 1200}
    with pytest.raises(PlanError, match="1200 trials at a time of 5 replicas each") as caught:
        planned(environment(), FOUR | {"workerType": "n1-standard-4", "hyperparameters": study})
    assert (caught.value.where, caught.value.hint) == (
        "trainingInput.hyperparameters.maxParallelTrials",
        "set it to at most 1000",
    )
