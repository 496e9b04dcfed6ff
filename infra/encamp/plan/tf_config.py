"""TF_CONFIG and CLUSTER_SPEC: the members of the cluster, and the task of each replica (4.2-4.4 of the job model)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.manifests.containers import compact_json
from encamp.plan.model import ClusterPlan, ReplicaPlan
from encamp.plan.names import PORT, replica_host, replica_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from encamp.plan.model import JobPlan, ReplicaGroupPlan


def cluster(name: str, groups: Sequence[ReplicaGroupPlan]) -> ClusterPlan:
    """Return task type to the addresses of its replicas. An evaluator is never part of the cluster."""
    return ClusterPlan(
        {
            group.task_type: tuple(f"{replica_host(name, group.role, index)}:{PORT}" for index in range(group.count))
            for group in groups
            if group.role.is_in_cluster
        }
    )


def tf_config(plan: JobPlan, group: ReplicaGroupPlan, index: int | str) -> dict[str, Any]:
    """Return TF_CONFIG of one replica.

    ``job`` is a JSON text, as the service wrote it; a trial's number is a text too.
    """
    return {
        "cluster": {task: list(hosts) for task, hosts in plan.cluster.tasks.items()},
        "task": {"type": group.task_type, "index": index, **_trial(plan)},
        "environment": "cloud",
        "job": compact_json(plan.training_input),
    }


def cluster_spec(plan: JobPlan, group: ReplicaGroupPlan, index: int | str) -> dict[str, Any]:
    """Return CLUSTER_SPEC of one replica.

    The same for other frameworks, always ``master``, with ``job`` as an object.
    """
    names = {each.task_type: each.role.value for each in plan.groups}
    return {
        "cluster": {names[task]: list(hosts) for task, hosts in plan.cluster.tasks.items()},
        "task": {"type": group.role.value, "index": index, **_trial(plan)},
        "environment": "cloud",
        "job": dict(plan.training_input),
    }


def _trial(plan: JobPlan) -> dict[str, str]:
    return {} if plan.trial is None else {"trial": str(plan.trial)}


def replicas(plan: JobPlan) -> Iterator[ReplicaPlan]:
    """Yield every replica, master first, with its TF_CONFIG."""
    for group in plan.groups:
        for index in range(group.count):
            yield ReplicaPlan(replica_name(group.role, index), group, index, tf_config(plan, group, index))
