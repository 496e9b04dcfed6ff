"""Facts of a planned job in few words: the columns of the tables in ``plan/jobs/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.machines.quotas import quotas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, NodePoolPlan, ReplicaGroupPlan

#: Variables that every replica has; the whole goldens hold them.
USUAL = {
    "CLOUD_ML_JOB",
    "CLOUD_ML_JOB_ID",
    "CLOUD_ML_PROJECT_ID",
    "CLOUD_ML_REGION",
    "PYTHONUNBUFFERED",
}


def facts(plan: JobPlan, manifests: Mapping[str, Any]) -> dict[str, Any]:
    """Every fact by its name; ``manifests`` are the objects by their kind."""
    job_set = manifests.get("JobSet", {"spec": {"replicatedJobs": []}})
    pods = {job["name"]: job["template"]["spec"]["template"] for job in job_set["spec"]["replicatedJobs"]}
    roles = {group.role.value: group for group in plan.groups}
    return {
        "replicas": [_replicas(group) for group in plan.groups],
        "asked": {role: _machine(group.requested) for role, group in roles.items()},
        "requests": {role: _requests(group) for role, group in roles.items()},
        "pools": [_pool(pool) for pool in plan.node_pools],
        "selects": {role: _selects(pod) for role, pod in pods.items()},
        "images": _alike({role: group.image for role, group in roles.items()}),
        "python": _alike({role: group.interpreter for role, group in roles.items()}),
        "runs": {role: _runs(group) for role, group in roles.items()},
        "env": {role: {k: v for k, v in group.env.items() if k not in USUAL} for role, group in roles.items()},
        "tasks": {task: len(hosts) for task, hosts in plan.cluster.tasks.items()},
        "user": _alike({role: _user(pod["spec"]) for role, pod in pods.items()}),
        "identity": plan.identity.service_account or "DIRECT",
        "grants": [_grant(grant.role, grant.bucket, grant.prefix, grant.objects) for grant in plan.identity.grants],
        "storage": _storage(plan),
        "packages": list(plan.groups[0].package_uris),
        "quotas": {_quota(plan, need.name, need.region): need.amount for need in quotas(plan)},
        "limits": _limits(plan),
        "cost": _cost(plan),
        "objects": list(manifests),
    }


def at(document: Any, path: str) -> Any:
    """What stands at a dotted path; items of lists are taken by ``name`` or by number."""
    for step in path.split("."):
        if isinstance(document, list):
            named = [item for item in document if isinstance(item, dict) and item.get("name") == step]
            document = named[0] if named else document[int(step)]
        else:
            document = document[step.replace("~", ".")]
    return document


def _alike(by_role: dict[str, Any]) -> Any:
    """One value where all roles have the same."""
    values = list(by_role.values())
    return values[0] if values and all(value == values[0] for value in values) else by_role


def _machine(shape: Any) -> str:
    accelerator = shape.accelerator
    extra = "" if accelerator is None else f" + {accelerator.count} {accelerator.type}"
    return f"{shape.machine_type}{extra}"


def _replicas(group: ReplicaGroupPlan) -> str:
    return f"{group.count} {group.role.value} on {_machine(group)}"


def _requests(group: ReplicaGroupPlan) -> str:
    amounts = group.resources
    devices = "".join(f", {count} {name}" for name, count in amounts.devices.items())
    nics = f", {group.rdma_nics} RDMA" if group.rdma_nics else ""
    return f"{amounts.cpu_millis}m, {amounts.memory_mib}Mi, shm {group.shared_memory_mib}Mi{devices}{nics}"


def _pool(pool: NodePoolPlan) -> str:
    parts = [
        f"{pool.min_nodes}-{pool.max_nodes} {_machine(pool)}",
        pool.provisioning,
        f"{pool.disk_size_gb} GB {pool.disk_type}",
        f"{pool.max_run_duration_seconds} s",
        pool.reservation and f"reservation {pool.reservation}",
        f"in {' '.join([pool.zone] if pool.zone else pool.zones)}" if pool.zone or pool.zones else None,
        pool.tpu_topology and f"topology {pool.tpu_topology} of {pool.tpu_hosts}",
        "compact" if pool.compact else None,
        pool.workload_policy and f"policy {pool.workload_policy}",
        pool.network_profile and f"network {pool.network_profile}",
        pool.rdma_nics and f"{pool.rdma_nics} RDMA",
        "image streaming" if pool.image_streaming else None,
        None if pool.architecture == "amd64" else pool.architecture,
    ]
    return ", ".join(str(part) for part in parts if part)


def _selects(pod: dict[str, Any]) -> str:
    """Labels of nodes and taints beyond those that every replica names."""
    labels = [f"{key}={value}" for key, value in pod["spec"]["nodeSelector"].items() if key != _POOL]
    taints = [one["key"] for one in pod["spec"]["tolerations"] if one["key"] != "encamp-job"]
    return ", ".join([*labels, *(f"tolerates {key}" for key in taints)])


_POOL = "cloud.google.com/gke-nodepool"


def _user(pod: dict[str, Any]) -> int | None:
    user: int | None = pod.get("securityContext", {}).get("runAsUser")
    return user


def _runs(group: ReplicaGroupPlan) -> str:
    """Command and arguments; ``ENTRYPOINT`` and ``CMD`` are the image's own."""
    command = "ENTRYPOINT" if group.command is None else " ".join(group.command)
    args = "CMD" if group.args is None else " ".join(group.args)
    return f"{command} | {args}"


def _quota(plan: JobPlan, name: str, region: str) -> str:
    return name if region == plan.cluster_region else f"{name} in {region}"


def _grant(role: str, bucket: str | None, prefix: str, objects: tuple[str, ...]) -> str:
    where = "" if bucket is None else f" on {bucket}/{prefix}{' '.join(objects)}"
    return f"{role.removeprefix('roles/')}{where}"


def _storage(plan: JobPlan) -> dict[str, Any]:
    storage = plan.storage
    found = {
        "jobDir": storage.job_dir,
        "scratch": storage.scratch_bucket,
        "results": storage.results_bucket,
        "days": storage.results_days,
        "folder": storage.folder and "/".join(storage.folder),
    }
    return {name: value for name, value in found.items() if value is not None}


def _limits(plan: JobPlan) -> dict[str, int]:
    limits = plan.limits
    return {
        "running": limits.max_running_time.seconds,
        "restarts": limits.max_restarts,
        "active": limits.active_deadline_seconds,
    } | ({"waiting": limits.max_wait_time.seconds} if limits.max_wait_time is not None else {})


def _cost(plan: JobPlan) -> dict[str, Any]:
    cost = plan.cost
    assert cost is not None
    said = {"hourly": cost.hourly, "expected": cost.expected, "worst": cost.worst_case, "budget": cost.budget}
    unpriced = {"unpriced": list(cost.unpriced)} if cost.unpriced else {}
    return {name: value for name, value in said.items() if value is not None} | unpriced
