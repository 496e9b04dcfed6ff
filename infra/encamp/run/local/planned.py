"""A plan's replicas on this machine, with the same inputs as in the cloud and local addresses. Pure.

A container that is started as it is (an image with its own command) cannot run here; a module can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError
from encamp.plan.manifests.containers import compact_json
from encamp.plan.model import ClusterPlan, JobPlan
from encamp.plan.names import log_name
from encamp.plan.tf_config import cluster_spec, replicas
from encamp.run.local.model import LocalReplica
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from encamp.plan.model import ReplicaGroupPlan
    from encamp.run.local.tf_config import Host

_JOB_DIR = "--job-dir"


def planned_replicas(plan: JobPlan, host: Host, ports: Sequence[int]) -> tuple[LocalReplica, ...]:
    """Return every replica of a plan, the primary first; ``ports`` has one for each that is in the cluster.

    Raises:
        PlanError: a container of the job runs as it is, so that there is nothing that could run here.
    """
    check_runs_here(plan)
    here = replace(plan, cluster=_here(plan.cluster, ports))
    return tuple(_planned(here, host))


def _planned(plan: JobPlan, host: Host) -> Iterator[LocalReplica]:
    for each in replicas(plan):
        group = each.group
        env = {**host.env, **group.env}
        if group.custom_container:
            env["CLUSTER_SPEC"] = compact_json(cluster_spec(plan, group, each.index))
        env["TF_CONFIG"] = compact_json(each.tf_config)
        argv = (str(host.program), *(group.command or ())[1:], *(group.args or ()))
        yield LocalReplica(log_name(group.role, each.index, plan.trial), group.role, each.index, argv, env, host.cwd)


def _here(cluster: ClusterPlan, ports: Sequence[int]) -> ClusterPlan:
    left = iter(ports)
    return ClusterPlan({task: tuple(f"localhost:{next(left)}" for _ in hosts) for task, hosts in cluster.tasks.items()})


def check_runs_here(plan: JobPlan) -> None:
    """Refuse a job of which a container runs as it is.

    Raises:
        PlanError: naming it.
    """
    for group in plan.groups:
        if group.interpreter is None:
            raise PlanError(
                f"{group.image} is started as it is, and containers are not run here",
                where=f"trainingInput.{group.role.key}Config",
                hint="give the job a pythonModule instead of the container's own command, or name the module by "
                "--module-name and the code by --package-path without a job file",
            )


def addresses(plan: JobPlan) -> int:
    """Return the number of replicas in a plan's cluster."""
    return sum(len(hosts) for hosts in plan.cluster.tasks.values())


def capped(plan: JobPlan, most: int) -> tuple[JobPlan, tuple[str, ...]]:
    """Return the same job with at most so many replicas of each role besides the primary, and what was cut."""
    counts = {group.role: group.count if group.role is Role.MASTER else min(group.count, most) for group in plan.groups}
    cut = [
        f"{counts[group.role]} of {group.count} {group.role.value} replicas"
        for group in plan.groups
        if counts[group.role] < group.count
    ]
    groups = tuple(replace(group, count=counts[group.role]) for group in plan.groups if counts[group.role])
    kept = {group.task_type: group.count for group in groups}
    tasks = {task: hosts[: kept[task]] for task, hosts in plan.cluster.tasks.items() if task in kept}
    notes = (f"--max-replicas: {', '.join(cut)} run",) if cut else ()
    return replace(plan, groups=groups, cluster=ClusterPlan(tasks)), notes


def with_job_dir(plan: JobPlan, job_dir: str | None) -> JobPlan:
    """Return the same job with another job dir, wherever replicas are told of it."""
    if job_dir is None or job_dir == plan.storage.job_dir:
        return plan
    data = {**plan.training_input, "job_dir": job_dir}
    groups = tuple(_group_with(group, plan.storage.job_dir, job_dir, data) for group in plan.groups)
    return replace(plan, groups=groups, training_input=data, storage=replace(plan.storage, job_dir=job_dir))


def _group_with(group: ReplicaGroupPlan, before: str | None, job_dir: str, data: Mapping[str, Any]) -> ReplicaGroupPlan:
    args = group.args or ()
    own = args[:-2] if before is not None and args[-2:] == (_JOB_DIR, before) else args
    env = {**group.env, "CLOUD_ML_JOB": compact_json(data)}
    return replace(group, args=(*own, _JOB_DIR, job_dir), env=env)
