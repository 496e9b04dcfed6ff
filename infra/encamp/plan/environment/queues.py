"""Queues of an environment: teams' quotas as ClusterQueues and ResourceFlavors of Kueue.

A job's nodes carry the name of their kind (a ResourceFlavor of Kueue: how they are got, and their accelerator), and its
replicas ask for it. So Kueue counts every replica against the one quota that is meant, whatever else it could run on.
Words and fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE
from encamp.plan.names import queue_object
from encamp.spec.data_files import data_file
from encamp.spec.encamp import Provisioning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.queues import QuotaSpec, TeamQueueSpec

#: Label of nodes whose job waited in a queue, and selector of its replicas: the flavor's name within the environment.
FLAVOR_LABEL = "encamp-flavor"
CPU, MEMORY = "cpu", "memory"
#: Resources that quotas count; a flavor has an amount of each.
RESOURCES = (CPU, MEMORY, GPU_RESOURCE, TPU_RESOURCE)
#: Amounts where nobody limits processors or memory: more than any region has.
UNLIMITED = {CPU: "10M", MEMORY: "100Pi"}

#: By how much each unit is larger than the one before, beginning with what specs count in.
_DECIMAL = (1000, ("", "k", "M", "G", "T", "P", "E"))
_BINARY = (1024, ("Gi", "Ti", "Pi", "Ei"))


@dataclass(frozen=True)
class FlavorPlan:
    """A kind of machine that quotas are for: the name of its ResourceFlavor, and the value of its nodes' label."""

    name: str
    label: str


@dataclass(frozen=True)
class QuotaPlan:
    """A queue's quota of a flavor: an amount of each of RESOURCES, as Kubernetes writes them."""

    flavor: str
    amounts: Mapping[str, str]


@dataclass(frozen=True)
class TeamQueuePlan:
    """A team's ClusterQueue with the LocalQueue of the same team, which jobs name.

    Attributes:
        team: name of the LocalQueue.
        cluster_queue: name of the ClusterQueue.
        borrows: whether it may use what other queues leave unused.
        checks: AdmissionChecks by name, each with the flavors it is for.
    """

    team: str
    cluster_queue: str
    quotas: tuple[QuotaPlan, ...]
    borrows: bool
    checks: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ProvisioningCheckPlan:
    """An AdmissionCheck that asks GKE for all machines of a job at once; ``resource`` is the requested device."""

    name: str
    resource: str


@dataclass(frozen=True)
class QueuesPlan:
    """The queues of an environment.

    Attributes:
        cohort: name under which the queues lend each other what they do not use.
        priorities: WorkloadPriorityClasses, by name.
        preempts: whether a job may take machines from running jobs of lower priority.
    """

    cohort: str
    namespace: str
    flavors: tuple[FlavorPlan, ...]
    checks: tuple[ProvisioningCheckPlan, ...]
    queues: tuple[TeamQueuePlan, ...]
    priorities: Mapping[str, int]
    preempts: bool


def plan_queues(environment: EnvironmentSpec) -> QueuesPlan | None:
    """Return the queues of an environment, None if it has none."""
    spec = environment.queues
    if spec is None:
        return None
    teams = spec.teams or {}
    quotas = [quota for team in teams.values() for quota in team.quotas]
    labels = sorted({quota_label(quota) for quota in quotas})
    asked = {_check(environment, quota): quota_resource(quota) for quota in quotas if _is_queued(quota)}
    return QueuesPlan(
        cohort=environment.name,
        namespace=environment.namespace,
        flavors=tuple(FlavorPlan(_flavor(environment, label), label) for label in labels),
        checks=tuple(ProvisioningCheckPlan(name, asked[name]) for name in sorted(asked)),
        queues=tuple(_queue(environment, team, teams[team]) for team in sorted(teams)),
        priorities={
            queue_object(environment.name, name): value for name, value in sorted((spec.priorities or {}).items())
        },
        preempts=spec.preemption == "lower-priority",
    )


def _queue(environment: EnvironmentSpec, name: str, team: TeamQueueSpec) -> TeamQueuePlan:
    checks: dict[str, tuple[str, ...]] = {}
    for quota in filter(_is_queued, team.quotas):
        check = _check(environment, quota)
        checks[check] = (*checks.get(check, ()), _flavor(environment, quota_label(quota)))
    return TeamQueuePlan(
        team=name,
        cluster_queue=queue_object(environment.name, name),
        quotas=tuple(QuotaPlan(_flavor(environment, quota_label(quota)), _amounts(quota)) for quota in team.quotas),
        borrows=team.borrow,
        checks=checks,
    )


def _amounts(quota: QuotaSpec) -> Mapping[str, str]:
    resource = quota_resource(quota)
    return {
        CPU: UNLIMITED[CPU] if quota.cpu is None else quantity(quota.cpu),
        MEMORY: UNLIMITED[MEMORY] if quota.memory_gib is None else quantity(quota.memory_gib, _BINARY),
        **{
            device: quantity(quota.count or 0) if device == resource else "0" for device in (GPU_RESOURCE, TPU_RESOURCE)
        },
    }


def quantity(amount: int, units: tuple[int, tuple[str, ...]] = _DECIMAL) -> str:
    """Return an amount in the one form that the API server keeps: any other would show as a change in every preview."""
    step, names = units
    for name in names:
        if amount == 0 or amount % step or name == names[-1]:
            return f"{amount}{name if amount else ''}"
        amount //= step
    raise AssertionError(f"no form of {amount}")


def _flavor(environment: EnvironmentSpec, label: str) -> str:
    return queue_object(environment.name, label)


def _check(environment: EnvironmentSpec, quota: QuotaSpec) -> str:
    return queue_object(environment.name, f"queued-{quota_resource(quota).partition('.')[0]}")


def _is_queued(quota: QuotaSpec) -> bool:
    return quota.provisioning is Provisioning.QUEUED


def quota_resource(quota: QuotaSpec) -> str:
    """Return the devices that a quota counts: GPUs, where it names none."""
    return TPU_RESOURCE if quota.accelerator in data_file("tpus") else GPU_RESOURCE


def quota_label(quota: QuotaSpec) -> str:
    """Return the kind of machine that a quota is for."""
    return flavor_label(quota.provisioning.value, quota.accelerator)


def flavor_label(provisioning: str, accelerator: str | None) -> str:
    """Return a kind of machine in short: ``spot-nvidia-l4``, ``queued-tpu-v5e``, ``on-demand``.

    Args:
        provisioning: how it is got, such as ``SPOT``.
        accelerator: as job files write it: ``NVIDIA_L4``, ``v5e``; None for machines without any.
    """
    kind = f"tpu-{accelerator}" if accelerator in data_file("tpus") else accelerator
    return "-".join(filter(None, (provisioning, kind))).lower().replace("_", "-")


def pool_flavor(pool: NodePoolPlan) -> str:
    """Return the kind of a job's node pool."""
    return flavor_label(pool.provisioning, None if pool.accelerator is None else _written(pool.accelerator.type))


def _written(gke: str) -> str:
    """Return an accelerator as job files write it, from GKE's name."""
    for version, entry in data_file("tpus").items():
        if any(machine["gke"] == gke for machine in entry["machines"].values()):
            return str(version)
    return next(name for name, entry in data_file("gpus").items() if entry["gke"] == gke)
