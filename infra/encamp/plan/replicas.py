"""The replicas of a job: tiers resolved to roles, each with machine, image, command, arguments and environment.

Sources are the sections 4.1-4.6 of the job model. A replica's own index is never part of a group: it is filled in by
``plan.cluster`` for people and by Kubernetes for the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan import catalog
from encamp.plan.machines import Shape, requested, shape
from encamp.plan.model import Accelerator, RequestedMachine, Role
from encamp.spec.training import AcceleratorType, ReplicaConfig, ScaleTier

if TYPE_CHECKING:
    from encamp.spec.training import TrainingInputSpec

#: More replicas than this are no job that one control plane starts.
MAXIMUM_REPLICAS = 5000

_FIELDS = {
    Role.MASTER: ("master_type", None, "master_config"),
    Role.WORKER: ("worker_type", "worker_count", "worker_config"),
    Role.PARAMETER_SERVER: ("parameter_server_type", "parameter_server_count", "parameter_server_config"),
    Role.EVALUATOR: ("evaluator_type", "evaluator_count", "evaluator_config"),
}


@dataclass(frozen=True)
class RoleRequest:
    """One role of a job before it has a container: how many, what was asked for, and on what it runs."""

    role: Role
    count: int
    requested: RequestedMachine
    shape: Shape
    config: ReplicaConfig


def roles(training_input: TrainingInputSpec) -> tuple[tuple[RoleRequest, ...], tuple[str, ...]]:
    """The roles that have replicas, master first, and warnings about what stands for what.

    A TPU worker runs no process of the user's (section 4.8). On GKE a TPU is part of the machine that runs the code, so
    the master takes the TPU's host and the worker is gone.

    Raises:
        PlanError: more replicas than can be started, or a machine that nothing stands for.
    """
    wanted = _wanted(training_input)
    total = sum(count for count, _ in wanted.values())
    if total > MAXIMUM_REPLICAS:
        raise PlanError(f"{total} replicas are more than {MAXIMUM_REPLICAS}", where="trainingInput.workerCount")
    warnings: list[str] = []
    tpu = wanted.get(Role.WORKER)
    if tpu is not None and tpu[1].accelerator is not None and tpu[1].accelerator.type.startswith("TPU"):
        del wanted[Role.WORKER]
        master = wanted[Role.MASTER][1]
        wanted[Role.MASTER] = (1, RequestedMachine(master.machine_type, tpu[1].accelerator))
        host = shape(tpu[1]).machine_type
        warnings.append(
            f"on GKE a TPU belongs to the machine that runs the code: the master runs on the TPU host {host}, not on "
            f"{master.machine_type}, and the {tpu[1].machine_type} worker is part of it"
        )
    found: list[RoleRequest] = []
    for role, (count, machine) in wanted.items():
        chosen = shape(machine)
        warnings.extend(f"{role.value}: {warning}" for warning in chosen.warnings)
        found.append(RoleRequest(role, count, machine, chosen, _config(training_input, role)))
    return tuple(found), tuple(warnings)


def _wanted(training_input: TrainingInputSpec) -> dict[Role, tuple[int, RequestedMachine]]:
    tier = training_input.scale_tier or ScaleTier.BASIC
    if tier is not ScaleTier.CUSTOM:
        groups = catalog.scale_tier(tier.value)
        return {
            role: (groups[role.value].count, requested(groups[role.value].machine_type, groups[role.value].accelerator))
            for role in Role
            if role.value in groups
        }
    wanted: dict[Role, tuple[int, RequestedMachine]] = {}
    for role, (type_field, count_field, _) in _FIELDS.items():
        machine_type: str | None = getattr(training_input, type_field)
        count: int = 1 if count_field is None else getattr(training_input, count_field) or 0
        if machine_type is not None and count > 0:
            wanted[role] = (count, requested(machine_type, _accelerator(_config(training_input, role))))
    return wanted


def _config(training_input: TrainingInputSpec, role: Role) -> ReplicaConfig:
    return getattr(training_input, _FIELDS[role][2]) or ReplicaConfig()


def _accelerator(config: ReplicaConfig) -> Accelerator | None:
    given = config.accelerator_config
    if given is None or given.type in {None, AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED} or not given.count:
        return None
    return Accelerator(str(given.type), given.count)
