"""Which queue a job waits in, what it tells Kueue, and which jobs would never be let in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.duration import seconds_of
from encamp.errors import PlanError
from encamp.plan.declared import declared_resources
from encamp.plan.document import job_document
from encamp.plan.environment.charts import plan_charts
from encamp.plan.environment.queues import FLAVOR_LABEL, flavor_label, plan_queues, pool_flavor
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.plan.model import Accelerator, NodePoolPlan
from encamp.plan.table import job_table
from encamp.spec.data_files import data_file
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

L4 = {"accelerator": "NVIDIA_L4", "count": 8}
TEAMS = {
    "research": {"quotas": [L4, L4 | {"provisioning": "QUEUED", "count": 4}, {"cpu": 64, "memoryGib": 512}]},
    "vision": {"quotas": [{"accelerator": "NVIDIA_L4", "count": 2}, {"cpu": 8}], "borrow": False},
}
ON_CPUS = {"masterType": "n1-standard-8"}


def lab(**queues: Any) -> EnvironmentSpec:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    block = {"teams": TEAMS, "priorities": {"low": 10, "high": 500}} | queues
    written = data | ({"queues": block} if queues != {"teams": None} else {})
    return parse_environment(written, project="my-project", source="test")


def planned(
    environment: EnvironmentSpec, machines: dict[str, Any] | None = None, *, scheduling: Any = None, **block: Any
) -> JobPlan:
    training = {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterConfig": {"imageUri": "gcr.io/my-project/trainer"},
        **({} if machines is not None else ON_CPUS),
        **({"scheduling": scheduling} if scheduling is not None else {}),
    }
    own = block | ({"machines": machines} if machines is not None else {})
    return plan_job(parse_job({"trainingInput": training, "encamp": own}, source="test").named("job").job, environment)


def gpus(count: int) -> dict[str, Any]:
    return {"master": {"gpu": {"type": "NVIDIA_L4", "count": count}}}


def test_a_job_tells_kueue_its_queue_its_priority_and_how_long_it_may_have_machines() -> None:
    plan = planned(lab(), gpus(2), queue="research", priority="high")
    job_set = render_manifests(plan).job_set
    assert {key: value for key, value in job_set["metadata"]["labels"].items() if "kueue" in key} == {
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/priority-class": "lab-high",
        "kueue.x-k8s.io/max-exec-time-seconds": str(plan.limits.deadline_seconds),
    }
    (pool,) = plan.node_pools
    assert pool.labels[FLAVOR_LABEL] == "on-demand-nvidia-l4"
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"][FLAVOR_LABEL] == "on-demand-nvidia-l4"
    queue = job_document(plan)["queue"]
    assert (queue["name"], queue["priorityClass"]) == ("research", "lab-high")
    assert queue["held"].endswith("no service account, no node pool, no bucket")
    assert "queue    research, priority lab-high" in job_table(plan)


def test_without_queues_nothing_is_said_of_them() -> None:
    plan = planned(lab(teams=None), gpus(2))
    job_set = render_manifests(plan).job_set
    assert plan.queue is None
    assert plan.limits.expiry_seconds == plan.limits.deadline_seconds
    assert "annotations" not in job_set["metadata"]
    assert not [key for key in job_set["metadata"]["labels"] if "kueue" in key]
    assert FLAVOR_LABEL not in plan.node_pools[0].labels


@pytest.mark.parametrize(
    ("asked", "got"), [(None, None), (5, None), (10, "lab-low"), (499, "lab-low"), (1000, "lab-high")]
)
def test_the_old_priority_reaches_the_highest_class_below_it(asked: int | None, got: str | None) -> None:
    plan = planned(lab(), queue="research", scheduling=None if asked is None else {"priority": asked})
    assert plan.queue is not None
    assert plan.queue.priority_class == got


def test_waiting_in_a_queue_is_no_time_of_machines() -> None:
    free, waiting = planned(lab(teams=None)), planned(lab(longestWaitHours=5), queue="research")
    assert (waiting.limits.queue_seconds, seconds_of(waiting.limits.max_wait_time)) == (18_000, 18_000)
    assert waiting.limits.deadline_seconds == free.limits.deadline_seconds
    assert waiting.limits.expiry_seconds == free.limits.expiry_seconds + 18_000
    assert waiting.node_pools[0].max_run_duration_seconds == free.node_pools[0].max_run_duration_seconds
    assert waiting.cost == free.cost
    said = planned(lab(), queue="research", scheduling={"maxWaitTime": "3600s"}).limits
    assert (said.queue_seconds, seconds_of(said.max_wait_time)) == (3600, 3600)


def test_machines_of_a_queued_job_are_asked_for_by_kueue_alone() -> None:
    plan = planned(lab(), gpus(4), queue="research", provisioning="QUEUED")
    manifests = render_manifests(plan)
    assert (manifests.pod_templates, manifests.provisioning_requests) == ((), ())
    longest = str(plan.node_pools[0].max_run_duration_seconds)
    assert manifests.job_set["metadata"]["annotations"] == {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": longest}
    pod = manifests.job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert not [key for key in pod["metadata"].get("annotations", {}) if "autoscaling" in key]
    assert not [one for one in declared_resources(plan) if "ProvisioningRequest" in one.type]


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ({}, "encamp.queue", "names none"),
        ({"queue": "reserch"}, "encamp.queue", "write research"),
        ({"queue": "research", "priority": "hihg"}, "encamp.priority", "write high"),
        (
            {"queue": "research", "machines": gpus(8), "provisioning": "SPOT"},
            "encamp.queue",
            "no quota for machines spot",
        ),
        ({"queue": "vision", "machines": gpus(4)}, "encamp.queue", "the queue vision has 2"),
        ({"queue": "research", "machines": {"master": {"machineType": "n1-highmem-96"}}}, "encamp.queue", "of cpu on"),
    ],
)
def test_a_job_that_would_never_be_let_in_is_refused(change: dict[str, Any], where: str, said: str) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        planned(lab(), **change)
    assert caught.value.where == where


def test_what_other_teams_leave_unused_counts_where_a_queue_borrows() -> None:
    assert planned(lab(), gpus(8), queue="research").queue is not None
    sixteen = TEAMS | {"vision": {"quotas": [L4]}}
    workers = {"master": {"gpu": {"type": "NVIDIA_L4", "count": 8}}}
    image = {"imageUri": "gcr.io/my-project/trainer"}
    training = {"scaleTier": "CUSTOM", "region": "us-central1", "workerCount": 1, "masterConfig": image}
    block = {"queue": "research", "machines": workers | {"worker": workers["master"]}}
    read = parse_job({"trainingInput": training, "encamp": block}, source="test").named("job").job
    assert plan_job(read, lab(teams=sixteen)).queue is not None
    with pytest.raises(PlanError, match=r"16 of nvidia.com/gpu .* has 10, what it can borrow included"):
        plan_job(read, lab())


@pytest.mark.parametrize(("block", "where"), [({"queue": "research"}, "queue"), ({"priority": "high"}, "priority")])
def test_an_environment_without_queues_takes_no_queue(block: dict[str, Any], where: str) -> None:
    with pytest.raises(PlanError, match="has no queues") as caught:
        planned(lab(teams=None), **block)
    assert caught.value.where == f"encamp.{where}"


def test_jobs_that_name_no_queue_go_to_the_default() -> None:
    plan = planned(lab(default="vision"))
    assert plan.queue is not None
    assert plan.queue.name == "vision"


@pytest.mark.parametrize(
    ("cpu", "memory_gib", "written"),
    [
        (0, 0, ("0", "0")),
        (64, 512, ("64", "512Gi")),
        (12_000, 1024, ("12k", "1Ti")),
        (3_000_000, 1536, ("3M", "1536Gi")),
    ],
)
def test_amounts_have_the_form_that_the_api_server_keeps(cpu: int, memory_gib: int, written: tuple[str, str]) -> None:
    team = {"research": {"quotas": [{"cpu": cpu, "memoryGib": memory_gib}]}}
    plan = plan_queues(lab(teams=team))
    assert plan is not None
    amounts = plan.queues[0].quotas[0].amounts
    assert (amounts["cpu"], amounts["memory"]) == written


def test_the_queues_of_an_environment() -> None:
    plan = plan_queues(lab(preemption="lower-priority"))
    assert plan is not None
    assert [(flavor.name, flavor.label) for flavor in plan.flavors] == [
        ("lab-on-demand", "on-demand"),
        ("lab-on-demand-nvidia-l4", "on-demand-nvidia-l4"),
        ("lab-queued-nvidia-l4", "queued-nvidia-l4"),
    ]
    assert [(check.name, check.resource) for check in plan.checks] == [("lab-queued-nvidia", "nvidia.com/gpu")]
    research, vision = plan.queues
    assert (research.cluster_queue, research.borrows, vision.borrows) == ("lab-research", True, False)
    assert research.checks == {"lab-queued-nvidia": ("lab-queued-nvidia-l4",)}
    assert vision.checks == {}
    assert research.quotas[2].amounts == {
        "cpu": "64",
        "memory": "512Gi",
        "nvidia.com/gpu": "0",
        "google.com/tpu": "0",
    }
    assert research.quotas[0].amounts["nvidia.com/gpu"] == "8"
    assert (plan.priorities, plan.preempts) == ({"lab-high": 500, "lab-low": 10}, True)


@pytest.mark.parametrize("accelerator", [*GpuType, *TpuVersion])
def test_a_jobs_pool_is_of_the_kind_that_a_quota_names(accelerator: str) -> None:
    gpus, tpus = data_file("gpus"), data_file("tpus")
    entry = tpus.get(accelerator)
    names = {host["gke"] for host in entry["machines"].values()} if entry else {gpus[accelerator]["gke"]}
    for gke in names:
        rest: tuple[Any, ...] = (0, 1, "pd-ssd", 100, 1, {}, ("key", "value", "NoSchedule"))
        pool = NodePoolPlan("p", "m", Accelerator(gke, 1), None, *rest, provisioning="SPOT")
        assert pool_flavor(pool) == flavor_label("SPOT", accelerator)


@pytest.mark.parametrize(
    ("project", "change", "names"),
    [
        ("my-project", {}, ["jobset", "kueue"]),
        ("my-project", {"queues": None}, ["jobset"]),
        ("my-project", {"controllers": "given"}, []),
        ("sandbox-x", {}, []),
    ],
)
def test_controllers_that_an_environment_installs(project: str, change: dict[str, Any], names: list[str]) -> None:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "queues": {"teams": TEAMS}}
    written = {key: value for key, value in (data | change).items() if value is not None}
    spec = parse_environment(written, project=project, source="test")
    assert [chart.name for chart in plan_charts(spec, {"encamp-owner": "encamp"})] == names
