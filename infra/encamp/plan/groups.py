"""The replicas of each role, decided: program, machine, share of it, and rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.environment.gke import node_features
from encamp.plan.machines.image_rules import ImageCase
from encamp.plan.machines.rdma import node_features_of
from encamp.plan.machines.room import SIDECAR, replica_room
from encamp.plan.manifests.containers import Container, master_task_type, task_type
from encamp.plan.manifests.pod_security import is_non_root
from encamp.plan.model import ReplicaGroupPlan
from encamp.spec.environment.gke import GkeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.model import NodePoolPlan
    from encamp.plan.replicas import RoleRequest
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec


@dataclass(frozen=True)
class Placed:
    """A role with its container, its pool and its variables."""

    request: RoleRequest
    container: Container
    pool: NodePoolPlan
    env: Mapping[str, str]


def replica_groups(
    job: TrainingJobSpec, environment: EnvironmentSpec, roles: Sequence[Placed], uris: tuple[str, ...]
) -> tuple[ReplicaGroupPlan, ...]:
    """Return the groups of a job.

    Args:
        job: the job.
        environment: where it runs.
        roles: its roles, master first.
        uris: packages that are installed before a module runs.

    Raises:
        PlanError: a machine has no room for a replica.
    """
    return tuple(_group(job, environment, role, uris) for role in roles)


def _group(
    job: TrainingJobSpec, environment: EnvironmentSpec, placed: Placed, uris: tuple[str, ...]
) -> ReplicaGroupPlan:
    request, chosen = placed.request, placed.container
    shape = request.shape
    beside = SIDECAR if job.encamp.mounts else None
    features = node_features_of(placed.pool, node_features(environment))
    room = replica_room(shape.machine_type, shape.accelerator, features, beside=beside)
    has_tpu = shape.tpu_version is not None
    non_root = is_non_root(job.encamp.run_as, custom_container=chosen.custom, has_tpu=has_tpu)
    return ReplicaGroupPlan(
        role=request.role,
        count=request.count,
        requested=request.requested,
        machine_type=shape.machine_type,
        accelerator=shape.accelerator,
        image=chosen.image,
        command=chosen.command,
        args=chosen.args,
        env=placed.env,
        task_type=task_type(request.role, master_task_type(job.training_input)),
        package_uris=uris if chosen.interpreter is not None else (),
        node_pool=placed.pool.name,
        resources=room.request,
        shared_memory_mib=room.shared_memory_mib,
        # A process of another user than root gets no capability by its container's.
        locked_memory=has_tpu and not non_root and allows_locked_memory(environment),
        values_at=chosen.values_at,
        custom_container=chosen.custom,
        interpreter=chosen.interpreter,
        non_root=non_root,
        rdma_nics=placed.pool.rdma_nics,
    )


def allows_locked_memory(environment: EnvironmentSpec) -> bool:
    """Whether replicas on TPUs may raise their limit of locked memory."""
    return (environment.gke or GkeSpec()).tpu_locked_memory


def image_cases(
    job: TrainingJobSpec, requests: Sequence[RoleRequest], containers: Sequence[Container]
) -> tuple[ImageCase, ...]:
    """Return the image of each role with the machine that it has to run on."""
    return tuple(
        ImageCase(
            image=chosen.image,
            shape=request.shape,
            where=request.where,
            runtime_version=job.training_input.runtime_version if chosen.runtime is not None else None,
            for_tpus=chosen.runtime is not None and chosen.runtime.for_tpus,
        )
        for request, chosen in zip(requests, containers, strict=True)
    )
