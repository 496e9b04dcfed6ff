"""The replicas of a job: tiers resolved to roles, each with machine, image, command, arguments and environment.

Sources are the sections 4.1-4.6 of the job model. A replica's own index is never part of a group: it is filled in by
``plan.cluster`` for people and by Kubernetes for the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp.plan.machines.shapes import Choice, Shape, is_ai_platform_tpu, requested, shape, today
from encamp.plan.model import Accelerator, RequestedMachine
from encamp.plan.study import parallel_trials
from encamp.spec.encamp import Substitutions
from encamp.spec.roles import Role
from encamp.spec.training import AcceleratorType, ReplicaConfig, ScaleTier

if TYPE_CHECKING:
    from encamp.spec.encamp import BootDiskSpec, MachineSpec
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.training import TrainingInputSpec

#: More replicas than this are no job that one control plane starts.
MAXIMUM_REPLICAS = 5000


@dataclass(frozen=True)
class RoleRequest:
    """One role of a job before it has a container: count, request and machine.

    Attributes:
        disk: boot disk that ``encamp.machines`` asks for.
        where: dotted path of the field that asks for the machine.
    """

    role: Role
    count: int
    requested: RequestedMachine
    shape: Shape
    config: ReplicaConfig
    disk: BootDiskSpec | None = None
    where: str = "trainingInput"


@dataclass(frozen=True)
class _RoleInput:
    """One role as the job file has it: AI Platform's machine, and the one of ``encamp.machines``."""

    count: int
    asked: RequestedMachine | None
    today: MachineSpec | None
    choice: Choice


def roles(job: TrainingJobSpec) -> tuple[tuple[RoleRequest, ...], tuple[str, ...]]:
    """Return the roles that have replicas, master first, and warnings about what stands for what.

    A TPU worker runs no process of the user's (section 4.8). On GKE a TPU is part of the machine that runs the code, so
    the master takes the TPU's host and the worker is gone; a slice of several hosts has a worker on each of them.

    Raises:
        PlanError: more replicas than can be started, or a machine that nothing stands for.
    """
    inputs = _inputs(job)
    total, trials = sum(entry.count for entry in inputs.values()), parallel_trials(job.training_input.hyperparameters)
    if total > MAXIMUM_REPLICAS:
        raise PlanError(f"{total} replicas are more than {MAXIMUM_REPLICAS}", where="trainingInput.workerCount")
    if total * trials > MAXIMUM_REPLICAS:
        what = f"{trials} trials at a time of {total} replicas each are more than {MAXIMUM_REPLICAS} replicas"
        hint = f"set it to at most {MAXIMUM_REPLICAS // total}"
        raise PlanError(what, where="trainingInput.hyperparameters.maxParallelTrials", hint=hint)
    warnings: list[str] = []
    tpu = inputs.get(Role.WORKER)
    if tpu is not None and tpu.today is None and tpu.asked is not None and is_ai_platform_tpu(tpu.asked):
        warnings.append(_with_tpu(inputs, tpu))
    found: list[RoleRequest] = []
    for role, entry in inputs.items():
        wanted, chosen = _chosen(entry)
        warnings.extend(f"{role.value}: {warning}" for warning in chosen.warnings)
        disk = entry.today.boot_disk if entry.today else None
        found.append(
            RoleRequest(role, entry.count, wanted, chosen, _config(job.training_input, role), disk, entry.choice.where)
        )
    return tuple(found), tuple(warnings)


def _chosen(entry: _RoleInput) -> tuple[RequestedMachine, Shape]:
    if entry.today is not None:
        return today(entry.today, entry.asked, entry.choice)
    if entry.asked is None:
        raise PlanError("no machine is named", where=entry.choice.where)
    return entry.asked, shape(entry.asked, entry.choice)


def _with_tpu(inputs: dict[Role, _RoleInput], tpu: _RoleInput) -> str:
    """Give the TPU of a TPU worker to who runs code, and say so."""
    asked, master = tpu.asked, inputs[Role.MASTER]
    if asked is None or asked.accelerator is None:
        raise AssertionError("a TPU worker has a TPU")
    host = shape(asked, tpu.choice)
    if (host.tpu_hosts or 1) > 1:
        inputs[Role.WORKER] = replace(tpu, count=host.tpu_hosts or 1)
        return (
            f"on GKE a TPU belongs to the machines that run the code: {host.tpu_hosts} workers run on the hosts of "
            f"{host.tpu_topology} ({host.machine_type}); the master has no TPU of its own"
        )
    if master.today is not None and (master.today.gpu is not None or master.today.tpu is not None):
        raise PlanError(
            f"the {asked.machine_type} worker is part of the master's machine on GKE, which has an accelerator already",
            where=master.choice.where,
            hint="remove one of them",
        )
    del inputs[Role.WORKER]
    named = master.asked.machine_type if master.asked else "a machine of its own"
    inputs[Role.MASTER] = _RoleInput(1, RequestedMachine(named, asked.accelerator), None, tpu.choice)
    return (
        f"on GKE a TPU belongs to the machine that runs the code: the master runs on the TPU host {host.machine_type}, "
        f"not on {named}, and the {asked.machine_type} worker is part of it"
    )


def _inputs(job: TrainingJobSpec) -> dict[Role, _RoleInput]:
    training_input = job.training_input
    substitutes = job.encamp.substitutions is not Substitutions.NEVER
    tier: ScaleTier = training_input.or_default("scale_tier")
    if tier is not ScaleTier.CUSTOM:
        groups = catalog.scale_tier(tier.value)
        choice = Choice("trainingInput.scaleTier", substitutes)
        return {
            role: _RoleInput(group.count, requested(group.machine_type, group.accelerator), None, choice)
            for role in Role
            if (group := groups.get(role)) is not None
        }
    inputs: dict[Role, _RoleInput] = {}
    for role in Role:
        machine_type: str | None = getattr(training_input, role.type_field)
        count: int = 1 if role.count_field is None else training_input.or_default(role.count_field)
        new: MachineSpec | None = getattr(job.encamp.machines, role.field, None)
        if count < 1 or (machine_type is None and new is None):
            continue
        given = _accelerator(_config(training_input, role))
        asked = requested(machine_type, given) if machine_type is not None else None
        place = f"{role.key}Config.acceleratorConfig" if given else f"{role.key}Type"
        where = f"encamp.machines.{role.key}" if new is not None else f"trainingInput.{place}"
        inputs[role] = _RoleInput(count, asked, new, Choice(where, substitutes))
    return inputs


def _config(training_input: TrainingInputSpec, role: Role) -> ReplicaConfig:
    return getattr(training_input, role.config_field) or ReplicaConfig()


def _accelerator(config: ReplicaConfig) -> Accelerator | None:
    given = config.accelerator_config
    if given is None or given.type in {None, AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED} or not given.count:
        return None
    return Accelerator(str(given.type), given.count)
