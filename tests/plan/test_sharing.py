"""Which machines the jobs of queues share, and which stay a job's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError, SpecError
from encamp.kinds.google import BUCKET, NODE_POOL
from encamp.plan.declared import declared_resources, held_while_waiting
from encamp.plan.environment.gke import node_features
from encamp.plan.environment.planning import plan_environment
from encamp.plan.environment.queues import FLAVOR_LABEL
from encamp.plan.environment.shared_pools import MOST_NODES, plan_shared_pools
from encamp.plan.job import plan_job
from encamp.plan.machines.allocatable import allocatable
from encamp.plan.machines.catalog import machine
from encamp.plan.machines.room import replica_room
from encamp.plan.manifests.job import render_manifests
from encamp.plan.summary import job_summary
from encamp.plan.table import job_table
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan, NodePoolPlan
    from encamp.plan.summary import JobSummary

L4, CPU = {"accelerator": "NVIDIA_L4", "count": 8}, {"cpu": 64, "memoryGib": 512}
EVERYTHING = [
    CPU,
    CPU | {"provisioning": "SPOT"},
    L4,
    L4 | {"provisioning": "QUEUED"},
    L4 | {"provisioning": "FLEX_START"},
    {"accelerator": "NVIDIA_TESLA_A100", "count": 16, "provisioning": "RESERVATION"},
    {"accelerator": "NVIDIA_TESLA_A100", "count": 16},
    {"accelerator": "v5e", "count": 16},
]


def lab(quotas: list[dict[str, Any]] | None = None, *, teams: dict[str, Any] | None = None, **queues: Any) -> Any:
    both = teams or {"research": {"quotas": EVERYTHING if quotas is None else quotas}}
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "owner": "team"}
    block = {"default": "research", "teams": both} | queues
    return parse_environment(data | {"queues": block}, project="my-project", source="test")


def named(environment: EnvironmentSpec) -> dict[str, NodePoolPlan]:
    return {pool.name.removeprefix("lab-"): pool for pool in plan_shared_pools(environment)}


def planned(
    environment: EnvironmentSpec,
    machines: dict[str, Any] | None = None,
    earlier: JobSummary | None = None,
    training: dict[str, Any] | None = None,
    **block: Any,
) -> JobPlan:
    written = {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterConfig": {"imageUri": "gcr.io/my-project/trainer"},
        **({} if machines is not None else {"masterType": "n1-standard-4"}),
        **(training or {}),
    }
    own = block | ({"machines": machines} if machines is not None else {})
    job = parse_job({"trainingInput": written, "encamp": own}, source="test").named("job").job
    return plan_job(job, environment, earlier=earlier)


def on(**master: Any) -> dict[str, Any]:
    return {"master": master}


ONE_L4 = on(gpu={"type": "NVIDIA_L4", "count": 1})
WORKERS = {"workerCount": 2, "workerConfig": {"imageUri": "gcr.io/my-project/trainer"}}


def test_usual_machines_of_every_quota_are_pools_from_zero_to_the_quota() -> None:
    pools = named(lab([CPU, L4, {"accelerator": "v5e", "count": 8}]))
    assert {name: pool.max_nodes for name, pool in pools.items()} == {
        "g2-standard-4-l4-1": 8,
        "g2-standard-24-l4-2": 4,
        "g2-standard-48-l4-4": 2,
        "g2-standard-96-l4-8": 1,
        **{
            name: 64 * 1000 // replica_room(name, None, node_features(lab())).request.cpu_millis
            for name in ("n1-standard-4", "n1-highcpu-8", "n1-highcpu-16", "n1-highmem-8")
        },
        "ct5lp-hightpu-1t-1x1": 8,
        "ct5lp-hightpu-4t-2x2": 2,
        "ct5lp-hightpu-8t-2x4": 1,
    }
    assert {pool.min_nodes for pool in pools.values()} == {0}
    assert {pool.max_run_duration_seconds for pool in pools.values()} == {30 * 86_400}
    assert pools["g2-standard-24-l4-2"].labels == {
        "encamp-owner": "team",
        "encamp-environment": "lab",
        FLAVOR_LABEL: "on-demand-nvidia-l4",
    }
    assert pools["n1-standard-4"].taint == ("encamp-environment", "lab", "NoSchedule")


def test_quotas_of_all_teams_add_up_and_one_without_a_limit_has_none() -> None:
    pools = named(lab(teams={"research": {"quotas": [L4, {"cpu": 8}]}, "vision": {"quotas": [L4, {"memoryGib": 64}]}}))
    assert pools["g2-standard-4-l4-1"].max_nodes == 16
    assert pools["n1-standard-4"].max_nodes == MOST_NODES


@pytest.mark.parametrize("gpu", list(GpuType))
def test_every_gpu_that_is_offered_has_pools_that_gke_would_make(gpu: GpuType) -> None:
    pools = named(lab([{"accelerator": gpu.value, "count": 64, "provisioning": "SPOT"}]))
    for pool in pools.values():
        assert pool.accelerator is not None
        assert pool.max_nodes == 64 // pool.accelerator.count
        assert len(pool.name) <= 40
    # Where the region has none, there is nothing to make.
    assert pools or gpu in {GpuType.NVIDIA_TESLA_P100, GpuType.NVIDIA_GB200, GpuType.NVIDIA_B200}


@pytest.mark.parametrize("tpu", list(TpuVersion))
def test_tpu_pools_are_slices_of_one_host(tpu: TpuVersion) -> None:
    pools = named(lab([{"accelerator": tpu.value, "count": 64}])).values()
    assert all(pool.tpu_topology is not None and not pool.multi_host and pool.zone is not None for pool in pools)


def test_only_machines_that_several_jobs_may_use_one_after_the_other_are_shared() -> None:
    flavors = {pool.labels[FLAVOR_LABEL] for pool in plan_shared_pools(lab())}
    assert flavors == {
        "on-demand", "spot", "on-demand-nvidia-l4", "queued-nvidia-l4", "on-demand-nvidia-tesla-a100",
        "on-demand-tpu-v5e",
    }  # fmt: skip


def test_pools_can_be_named_and_can_be_none() -> None:
    own = [{"machineType": "n2-standard-8", "bootDisk": {"sizeGb": 200}}, {"gpu": {"type": "NVIDIA_L4", "count": 2}}]
    assert set(named(lab(pools=own))) == {"n2-standard-8-200gb", "g2-standard-24-l4-2"}
    assert plan_environment(lab(pools=[])).shared_pools == ()
    assert plan_environment(lab()).shared_pools == plan_shared_pools(lab())


def without_queues() -> EnvironmentSpec:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    return parse_environment(data, project="my-project", source="test")


def test_an_environment_without_queues_shares_nothing() -> None:
    environment = without_queues()
    assert plan_environment(environment).shared_pools == ()
    plan = planned(environment)
    assert plan.shared_pools == ()
    assert plan.storage.scratch_bucket is not None
    assert NODE_POOL.token in {one.type for one in declared_resources(plan)}


def test_a_job_of_a_queue_makes_neither_pool_nor_bucket_nor_account() -> None:
    plan = planned(lab(), ONE_L4 | {"worker": {"machineType": "n1-standard-4"}}, training=WORKERS)
    assert [(pool.name, pool.max_nodes) for pool in plan.shared_pools] == [
        ("lab-g2-standard-4-l4-1", 1),
        ("lab-n1-standard-4", 2),
    ]
    assert plan.own_pools == ()
    assert {one.type for one in declared_resources(plan)} == {
        "gcp:projects/iAMMember:IAMMember",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
    }
    assert BUCKET.token not in {one.type for one in declared_resources(plan)}
    pods = [
        group["template"]["spec"]["template"]["spec"]
        for group in render_manifests(plan).job_set["spec"]["replicatedJobs"]
    ]
    assert [pod["nodeSelector"]["cloud.google.com/gke-nodepool"] for pod in pods] == [
        "lab-g2-standard-4-l4-1",
        "lab-n1-standard-4",
    ]
    taint = {"key": "encamp-environment", "operator": "Equal", "value": "lab", "effect": "NoSchedule"}
    assert all(taint in pod["tolerations"] for pod in pods)
    assert not [warning for warning in plan.warnings if "of its own" in warning]


@pytest.mark.parametrize(
    ("machines", "block", "because"),
    [
        (ONE_L4, {"provisioning": "FLEX_START"}, "a flex-start machine ends 7 days after its start"),
        (
            on(gpu={"type": "NVIDIA_TESLA_A100", "count": 1}),
            {"provisioning": "RESERVATION", "reservation": "ours", "zone": "us-central1-c"},
            "those of a reservation",
        ),
        (ONE_L4, {"zone": "us-central1-a"}, "it names a zone"),
        (on(gpu={"type": "NVIDIA_L4", "count": 1}, bootDisk={"sizeGb": 500}), {}, "with this boot disk"),
        (on(machineType="n2-standard-8"), {}, "no shared pool has this machine"),
    ],
)
def test_what_belongs_to_one_run_stays_the_jobs_own(
    machines: dict[str, Any], block: dict[str, Any], because: str
) -> None:
    plan = planned(lab(), machines, **block)
    assert plan.shared_pools == ()
    assert [pool.taint for pool in plan.own_pools] == [("encamp-job", plan.name, "NoSchedule")]
    (warning,) = [one for one in plan.warnings if "of its own while it waits" in one]
    assert because in warning
    assert plan.own_pools[0].name in warning


def test_a_slice_of_several_hosts_stays_the_jobs_own() -> None:
    machines = on(machineType="n1-standard-4") | {"worker": {"tpu": {"version": "v5e", "topology": "4x4"}}}
    plan = planned(lab(), machines, training=WORKERS | {"workerCount": 4})
    assert [pool.multi_host for pool in plan.own_pools] == [True]
    assert [pool.name for pool in plan.shared_pools] == ["lab-n1-standard-4"]
    (warning,) = [one for one in plan.warnings if "of its own while it waits" in one]
    assert "a slice of several hosts" in warning


@pytest.mark.parametrize(
    ("block", "held"),
    [
        ({}, "3 bindings and 4 objects in the cluster, no service account, no node pool, no bucket"),
        (
            {"storage": {"kind": "OWN_BUCKET"}, "zone": "us-central1-a", "identity": {"mode": "SERVICE_ACCOUNT"}},
            "1 service account, 1 node pool, 1 bucket, 6 bindings and 4 objects in the cluster",
        ),
    ],
)
def test_the_plan_says_what_a_waiting_job_holds(block: dict[str, Any], held: str) -> None:
    plan = planned(lab(), ONE_L4, **block)
    assert held_while_waiting(plan) == held
    assert f"held     {held} while it waits" in job_table(plan)
    assert "while it waits" not in job_table(planned(without_queues()))


def test_machines_close_together_stay_the_jobs_own() -> None:
    workers = ONE_L4 | {"worker": ONE_L4["master"]}
    plan = planned(lab(), workers, training=WORKERS, placement="COMPACT", zone="us-central1-a")
    assert [pool.compact for pool in plan.own_pools] == [True]
    assert [one for one in plan.warnings if "close to each other" in one]


def test_streaming_is_shared_where_the_environment_streams() -> None:
    assert planned(lab(), ONE_L4, imageStreaming=True).own_pools == ()
    still = parse_environment(
        {
            "name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts",
            "gke": {"imageStreaming": False}, "queues": {"default": "r", "teams": {"r": {"quotas": EVERYTHING}}},
        },
        project="my-project", source="test",
    )  # fmt: skip
    assert planned(still, ONE_L4).own_pools == ()
    (warning,) = [one for one in planned(still, ONE_L4, imageStreaming=True).warnings if "of its own" in one]
    assert "image streaming" in warning


def test_a_job_that_may_outlive_a_shared_machine_has_its_own() -> None:
    month = {"scheduling": {"maxRunningTime": f"{30 * 86_400}s"}}
    (warning,) = [one for one in planned(lab(), training=month).warnings if "of its own" in one]
    assert "longer than a shared machine lives" in warning
    assert planned(lab(machineDays=120), training=month).own_pools == ()


def test_what_the_job_has_of_its_machines_is_the_jobs_measure() -> None:
    plan = planned(lab(), ONE_L4, provisioning="QUEUED", training={"scheduling": {"maxRunningTime": "3600s"}})
    (pool,) = plan.shared_pools
    assert pool.max_run_duration_seconds == plan.limits.deadline_seconds
    annotations = render_manifests(plan).job_set["metadata"]["annotations"]
    assert annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] == str(plan.limits.deadline_seconds)
    assert plan.cost is not None
    assert [(part.resource, part.count) for part in plan.cost.parts] == [(pool.name, 1), (pool.name, 1)]


def test_a_stack_keeps_the_pools_and_the_bucket_that_it_has() -> None:
    before = planned(lab(pools=[]), ONE_L4)
    had = job_summary(before).model_copy(update={"scratch_bucket": "job-scratch"})
    assert len(before.own_pools) == 1
    again = planned(lab(), ONE_L4, earlier=had)
    assert [pool.name for pool in again.own_pools] == [pool.name for pool in before.own_pools]
    assert again.storage.scratch_bucket is not None
    assert not [one for one in again.warnings if "of its own" in one]
    new = planned(lab(), ONE_L4)
    assert planned(lab(), ONE_L4, earlier=job_summary(new)) == new


def test_no_two_replicas_share_a_machine() -> None:
    """A team's code runs alone on a shared machine: two replicas never fit, whosesoever they are."""
    for pool in plan_shared_pools(lab()):
        room = allocatable(pool.machine_type, pool.accelerator)
        asked = replica_room(pool.machine_type, pool.accelerator, node_features(lab())).request
        twice = 2 * asked.cpu_millis > room.cpu_millis or 2 * asked.memory_mib > room.memory_mib
        assert twice, pool.name
        assert machine(pool.machine_type).vcpu * 1000 >= asked.cpu_millis


@pytest.mark.parametrize(
    ("pool", "path", "said"),
    [
        ({}, "queues.pools[0]", "names no machine"),
        ({"machineType": "n1-standart-4"}, "queues.pools[0].machineType", "no machine type"),
        ({"machineType": "n1-standard-4", "provisioning": "FLEX_START"}, "queues.pools[0].provisioning", "job's own"),
        ({"machineType": "n1-standard-4", "provisioning": "QUEUED"}, "queues.pools[0].provisioning", "GPUs or TPUs"),
        ({"gpu": {"type": "NVIDIA_L4", "count": 3}}, "queues.pools[0].gpu", "no machine has 3"),
        ({"gpu": {"count": 3}}, "queues.pools[0].gpu.type", "is missing"),
        ({"gpu": {"type": "NVIDIA_TESLA_T4"}}, "queues.pools[0]", "no team has a quota for ON_DEMAND NVIDIA_TESLA_T4"),
        ({"tpu": {"version": "v5e", "topology": "4x4"}}, "queues.pools[0].tpu", "has 4 hosts"),
        ({"tpu": {"version": "v5e", "topology": "9x9"}}, "queues.pools[0].tpu", "no such slice"),
        ({"machineType": "ct5lp-hightpu-4t"}, "queues.pools[0].tpu", "is missing"),
        (
            {"tpu": {"version": "v5e", "topology": "2x2"}, "gpu": {"type": "NVIDIA_L4"}},
            "queues.pools[0]",
            "one kind of accelerator",
        ),
        ({"machineType": "n1-standard-4", "bootDisk": {"sizeGb": 1}}, "queues.pools[0].bootDisk.sizeGb", "must be"),
        (
            {"machineType": "n1-standard-4", "bootDisk": {"type": "hyperdisk-balanced"}},
            "queues.pools[0].bootDisk.type",
            "",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_refused_where_it_is_written(pool: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        lab(pools=[pool])
    (problem,) = caught.value.problems
    assert problem.path == path
    assert said in problem.message


def test_pools_are_named_once_and_live_for_days() -> None:
    twice = [{"machineType": "n1-standard-4"}] * 2
    with pytest.raises(SpecError, match="stands twice"):
        lab(pools=twice)
    for days in (0, 121):
        with pytest.raises(SpecError, match="must be 1 to 120"):
            lab(machineDays=days)


@pytest.mark.parametrize(
    ("quota", "pool", "said"),
    [
        ({"accelerator": "NVIDIA_L4", "count": 1}, {"gpu": {"type": "NVIDIA_L4", "count": 2}}, "leave no room for one"),
        ({"accelerator": "v4", "count": 8}, {"tpu": {"version": "v4", "topology": "2x2x1"}}, "us-central1 has no ct4p"),
    ],
)
def test_a_named_pool_without_a_machine_is_refused(quota: dict[str, Any], pool: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        plan_environment(lab([quota, CPU], pools=[pool]))
    assert caught.value.where == "encamp:environment.queues.pools[0]"


def test_replicas_on_shared_machines_carry_the_labels_of_the_bill() -> None:
    labels = {"team": "vision", "cost-center": "4711", "odd": "-7-", "größe": "1"}
    written = {"scaleTier": "BASIC", "region": "us-central1", "masterConfig": {"imageUri": "gcr.io/my-project/trainer"}}
    job = parse_job({"jobId": "job", "labels": labels, "trainingInput": written}, source="test").job
    plan = plan_job(job, lab())
    (group,) = render_manifests(plan).job_set["spec"]["replicatedJobs"]
    kept = group["template"]["spec"]["template"]["metadata"]["labels"]
    assert {key: value for key, value in kept.items() if not key.startswith("encamp-")} == {
        "team": "vision",
        "cost-center": "4711",
    }
    (warning,) = [one for one in plan.warnings if "Kubernetes does not take" in one]
    assert warning.endswith(": größe, odd")
    alone = plan_job(job, lab(pools=[]))
    (group,) = render_manifests(alone).job_set["spec"]["replicatedJobs"]
    assert "team" not in group["template"]["spec"]["template"]["metadata"]["labels"]
