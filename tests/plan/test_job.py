from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.duration import Duration
from encamp.errors import PlanError
from encamp.plan.document import job_document
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.plan.model import Accelerator, Grant
from encamp.plan.tf_config import replicas
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan

    Plan = Callable[..., JobPlan]

IMAGE = {"imageUri": "gcr.io/p/i"}
KEYS = {"jobId", "name", "region", "replicas", "nodePools", "identity", "storage", "limits", "cost", "quotas"}
REPLICA_KEYS = {
    "name",
    "role",
    "index",
    "requested",
    "machineType",
    "accelerator",
    "image",
    "command",
    "args",
    "env",
    "tfConfig",
}
POOL_KEYS = {
    "name",
    "machineType",
    "accelerator",
    "tpuTopology",
    "minNodes",
    "maxNodes",
    "provisioning",
    "reservation",
    "zone",
    "tpuHosts",
    "bootDisk",
    "imageStreaming",
}


def test_the_document_has_exactly_its_keys(plan_input: Plan) -> None:
    document = job_document(plan_input())
    assert document.keys() == KEYS
    assert document["replicas"][0].keys() == REPLICA_KEYS
    assert document["nodePools"][0].keys() == POOL_KEYS
    assert document["identity"].keys() == {"mode", "serviceAccount", "kubernetesServiceAccount", "grants", "roles"}
    assert document["storage"].keys() == {"bucket", "jobDir", "resultsBucket", "resultsDays"}
    assert document["limits"].keys() == {"maxRunningTimeSeconds", "maxRestarts", "deadlineSeconds"}


def test_beyond_64_replicas_the_cluster_stands_once(plan_input: Plan) -> None:
    fields: dict[str, Any] = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerType": "n1-standard-4"}
    small = job_document(plan_input(**fields, workerCount=63))
    assert small.keys() == KEYS
    large = plan_input(**fields, workerCount=64)
    brief, full = job_document(large), job_document(large, full=True)
    assert brief["replicas"][64]["tfConfig"] is None
    assert brief["cluster"] == full["replicas"][64]["tfConfig"]["cluster"]
    assert full.keys() == KEYS


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"runtimeVersion": "2.1"}, "chief"),
        ({"runtimeVersion": "2.10"}, "chief"),
        ({"runtimeVersion": "1.15"}, "master"),
        ({"runtimeVersion": "1.15", "useChiefInTfConfig": True}, "master"),
        ({"masterConfig": IMAGE}, "master"),
        ({"masterConfig": IMAGE, "useChiefInTfConfig": True}, "chief"),
    ],
)
def test_what_the_master_is_called(plan_input: Plan, fields: dict[str, Any], name: str) -> None:
    (master,) = replicas(plan_input(**fields))
    assert master.tf_config is not None
    assert master.tf_config["task"] == {"type": name, "index": 0}
    assert list(master.tf_config["cluster"]) == [name]
    assert master.group.role.value == "master"


def test_an_evaluator_stays_outside_the_cluster(plan_input: Plan) -> None:
    machine = {"evaluatorType": "n1-standard-4", "evaluatorCount": 2}
    plan = plan_input(scaleTier="CUSTOM", masterType="n1-standard-4", **machine)
    configs = [replica.tf_config for replica in replicas(plan)]
    assert [config["task"] for config in configs if config][1:] == [
        {"type": "evaluator", "index": 0},
        {"type": "evaluator", "index": 1},
    ]
    assert all("evaluator" not in config["cluster"] for config in configs if config)


@pytest.mark.parametrize(
    ("config", "args", "command", "given"),
    [
        ({}, None, None, None),
        ({"containerCommand": ["run"]}, None, ("run",), None),
        ({"containerArgs": ["a"]}, None, None, ("a",)),
        ({"containerCommand": ["run"], "containerArgs": ["a"]}, None, ("run",), ("a",)),
        ({}, ["x"], None, ("x",)),
    ],
)
def test_the_truth_table_of_custom_containers(
    plan_input: Plan, *, config: dict[str, Any], args: list[str] | None, command: Any, given: Any
) -> None:
    fields = {"masterConfig": IMAGE | config} | ({"args": args} if args else {})
    (group,) = plan_input(**fields).groups
    assert (group.command, group.args, group.package_uris) == (command, given, ())


def test_the_job_dir_comes_last_as_two_words(plan_input: Plan) -> None:
    (group,) = plan_input(args=["--a", "b"], jobDir="gs://out/x").groups
    assert group.args == ("--a", "b", "--job-dir", "gs://out/x")
    (without,) = plan_input(args=["--a"]).groups
    assert without.args == ("--a",)


def test_groups_of_one_shape_share_a_pool(plan_input: Plan) -> None:
    plan = plan_input(scaleTier="STANDARD_1")
    assert [(pool.machine_type, pool.max_nodes) for pool in plan.node_pools] == [
        ("n1-highcpu-8", 5),
        ("n1-standard-4", 3),
    ]
    assert [group.node_pool for group in plan.groups] == [plan.node_pools[i].name for i in (0, 0, 1)]
    assert all(pool.taint == ("encamp-job", plan.name, "NoSchedule") for pool in plan.node_pools)


@pytest.mark.parametrize(
    ("kind", "machine", "count", "gke", "gke_count"),
    [
        ("NVIDIA_TESLA_K80", "n1-standard-4", 1, "nvidia-tesla-t4", 1),
        ("NVIDIA_TESLA_K80", "n1-standard-32", 8, "nvidia-tesla-t4", 4),
        ("NVIDIA_TESLA_V100", "n1-highmem-64", 8, "nvidia-tesla-v100", 8),
        ("NVIDIA_TESLA_P100", "n1-highcpu-64", 4, "nvidia-tesla-p100", 4),
        ("NVIDIA_TESLA_P4", "n1-standard-96", 4, "nvidia-tesla-p4", 4),
    ],
)
def test_gpus_in_gkes_names(plan_input: Plan, *, kind: str, machine: str, count: int, gke: str, gke_count: int) -> None:
    config = {"acceleratorConfig": {"type": kind, "count": count}}
    plan = plan_input(scaleTier="CUSTOM", masterType=machine, masterConfig=config)
    (group,) = plan.groups
    assert group.requested.accelerator == Accelerator(kind, count)
    assert group.accelerator == Accelerator(gke, gke_count)
    assert group.resources.devices == {"nvidia.com/gpu": gke_count}
    named = [warning for warning in plan.warnings if kind in warning and "T4" in warning]
    assert bool(named) == (kind == "NVIDIA_TESLA_K80")
    assert group.image.endswith("-gpu")


def test_every_accepted_gpu_has_a_machine_on_gke(plan_input: Plan) -> None:
    from encamp.spec.ai_platform import ai_platform  # noqa: PLC0415

    for machine, kinds in ai_platform().gpu_counts.items():
        for kind, counts in kinds.items():
            for count in counts:
                if machine != "cloud_tpu":
                    config = {"acceleratorConfig": {"type": kind, "count": count}}
                    plan = plan_input(scaleTier="CUSTOM", masterType=machine, masterConfig=config)
                    assert plan.groups[0].accelerator is not None


def test_every_accepted_machine_type_has_one_on_gke(plan_input: Plan) -> None:
    from encamp.spec.ai_platform import ai_platform  # noqa: PLC0415

    too_small = {"n2-highcpu-2", "e2-highcpu-2"}  # GKE's own pods take all of their memory
    for machine in ai_platform().accepted_types():
        if machine not in {"cloud_tpu", *too_small}:
            plan = plan_input(scaleTier="CUSTOM", masterType=machine)
            assert plan.groups[0].requested.machine_type == machine


@pytest.mark.parametrize("tier", ["BASIC", "STANDARD_1", "PREMIUM_1", "BASIC_GPU", "BASIC_TPU"])
def test_every_tier_is_planned(plan_input: Plan, tier: str) -> None:
    plan = plan_input(scaleTier=tier)
    assert sum(pool.max_nodes for pool in plan.node_pools) == sum(group.count for group in plan.groups)


def test_an_own_account_gets_the_jobs_data_only(plan_input: Plan) -> None:
    plan = plan_input(serviceAccount="me@p.iam.gserviceaccount.com", jobDir="gs://out/x")
    assert plan.identity.account_id is None
    assert {grant.bucket for grant in plan.identity.grants} == {plan.storage.bucket, plan.storage.scratch_bucket}


def test_the_jobs_account_may_write_its_job_dir_and_nothing_beside(plan_input: Plan) -> None:
    plan = plan_input(jobDir="gs://out/x")
    assert Grant("roles/storage.objectUser", "out") in plan.identity.grants
    assert Grant("roles/storage.objectUser", plan.storage.bucket, "jobs/job/output/") in plan.identity.grants
    on_project = {grant.role for grant in plan.identity.grants if grant.bucket is None}
    assert not {role for role in on_project if "storage" in role or "admin" in role.lower()}


def test_limits_and_deadlines(plan_input: Plan) -> None:
    plan = plan_input(scheduling={"maxRunningTime": "10.2s", "maxWaitTime": "2000s"})
    assert plan.limits.max_running_time.seconds == 11
    assert plan.limits.max_wait_time == Duration.of(2000)
    assert plan.limits.active_deadline_seconds == 2011
    assert plan.node_pools[0].max_run_duration_seconds == 2011 + 1800
    assert plan_input().limits.max_running_time.seconds == 604_800
    long = plan_input(scheduling={"maxRunningTime": "315576000000s"})
    assert long.node_pools[0].max_run_duration_seconds == 120 * 86_400


def test_a_region_elsewhere_is_refused_by_a_real_environment() -> None:
    data = {"name": "lab", "region": "us-east1", "artifactsBucket": "lab-artifacts"}
    spec: EnvironmentSpec = parse_environment(data, project="my-project", source="x")
    job = parse_job({"jobId": "a", "trainingInput": {"region": "us-central1", "masterConfig": IMAGE}}, source="x").job
    with pytest.raises(PlanError, match="us-east1"):
        plan_job(job, spec)


def test_too_many_replicas_are_refused_before_they_are_counted_out(plan_input: Plan) -> None:
    with pytest.raises(PlanError, match="replicas"):
        plan_input(scaleTier="CUSTOM", masterType="n1-standard-4", workerType="n1-standard-4", workerCount=2**62)


def test_an_environment_is_planned_as_it_is_written(environment: EnvironmentSpec) -> None:
    plan = plan_environment(environment)
    assert (plan.cluster, plan.namespace, plan.artifacts_bucket) == (
        "encamp",
        "encamp-jobs",
        "sandbox-encamp-artifacts",
    )
    assert plan.labels == {"encamp-owner": "encamp", "encamp-environment": "sandbox"}


def test_what_no_container_installs_is_a_warning(plan_input: Callable[..., JobPlan]) -> None:
    image = {"masterConfig": {"imageUri": "europe-docker.pkg.dev/p/r/i"}}
    uris = {"packageUris": ["gs://packages/a.tar.gz"]}
    plan = plan_input(**image, **uris)
    assert any("not installed: packageUris" in warning for warning in plan.warnings)
    plan = plan_input(**image, **uris, pythonModule="a.b")
    assert not any("not installed" in warning for warning in plan.warnings)
