"""A job's machines on GKE: from AI Platform's types, GPUs and TPUs, or from ``encamp.machines``.

What Google no longer offers is replaced, with a warning that names both, or refused where the job forbids that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp.plan.model import Accelerator, RequestedMachine
from encamp.spec import machines_today

if TYPE_CHECKING:
    from encamp.spec.encamp import GpuSpec, MachineSpec, TpuSpec


@dataclass(frozen=True)
class Shape:
    """The machine of a replica on GKE, in GKE's names.

    Attributes:
        tpu_version: generation of the TPU slice it is a host of.
        tpu_topology: topology of that slice.
        tpu_hosts: hosts of that slice.
        warnings: what was taken instead of what; each names both.
    """

    machine_type: str
    accelerator: Accelerator | None
    tpu_version: str | None = None
    tpu_topology: str | None = None
    tpu_hosts: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The source of a machine: dotted path of its field, and whether a substitute is allowed."""

    where: str
    substitutes: bool = True


def requested(machine_type: str, accelerator: Accelerator | None) -> RequestedMachine:
    """Return the requested machine with the accelerators of legacy types and of built-in ones made explicit."""
    legacy = catalog.legacy_machine_type(machine_type)
    if legacy is not None:
        return RequestedMachine(machine_type, accelerator or legacy[1])
    built_in = catalog.built_in_accelerator(machine_type)
    return RequestedMachine(machine_type, accelerator or built_in)


def is_ai_platform_tpu(wanted: RequestedMachine) -> bool:
    """Whether AI Platform would have given it a TPU."""
    return wanted.accelerator is not None and wanted.accelerator.type.startswith("TPU_")


def shape(wanted: RequestedMachine, choice: Choice) -> Shape:
    """Return the machine on GKE that stands for one of AI Platform.

    Raises:
        PlanError: nothing that Google offers today can stand for it, or nothing may.
    """
    accelerator = wanted.accelerator
    if accelerator is not None and is_ai_platform_tpu(wanted):
        return _old_tpu(accelerator, choice)
    machine = catalog.machine(compute_engine_type(wanted.machine_type) or wanted.machine_type)
    if accelerator is None or machine.accelerator is not None:
        return Shape(machine.name, machine.accelerator)
    return _attached(machine, accelerator, choice)


def compute_engine_type(machine_type: str) -> str | None:
    """Return the Compute Engine type of a legacy type, or the type itself; None for ``cloud_tpu``."""
    legacy = catalog.legacy_machine_type(machine_type)
    return legacy[0] if legacy else machine_type


def today(spec: MachineSpec, asked: RequestedMachine | None, choice: Choice) -> tuple[RequestedMachine, Shape]:
    """Return the machine of a role by its entry in ``encamp.machines``.

    Args:
        spec: the entry.
        asked: what AI Platform's own fields ask for, where they do.
        choice: where it stands, and whether something may stand for what is gone.

    Raises:
        PlanError: no machine of today is like that.
    """
    if spec.tpu is not None:
        return _tpu_of_today(spec, spec.tpu, choice)
    if spec.gpu is not None:
        return _gpu_of_today(spec.gpu, spec.machine_type, asked, choice)
    if spec.machine_type is not None:
        machine = catalog.machine(spec.machine_type)
        if machine.is_tpu:
            raise PlanError(
                f"{machine.name} is a TPU host", where=choice.where, hint="say by tpu which slice it is a host of"
            )
        wanted = RequestedMachine(spec.machine_type, catalog.built_in_accelerator(spec.machine_type))
        return wanted, Shape(machine.name, machine.accelerator)
    if asked is None:
        raise PlanError("no machine is named", where=choice.where, hint="give machineType, gpu or tpu")
    return asked, shape(asked, choice)


def _gpu_of_today(
    spec: GpuSpec, machine_type: str | None, asked: RequestedMachine | None, choice: Choice
) -> tuple[RequestedMachine, Shape]:
    gpu, count = catalog.gpu(spec.type or ""), spec.count or 1
    named = machine_type
    if named is None and asked is not None and not gpu.machines:
        named = compute_engine_type(asked.machine_type)
    name = named or catalog.smallest_machine(gpu, count)
    if name is None:
        listed = ", ".join(str(each) for each in gpu.counts)
        raise PlanError(f"no machine has {count} x {gpu.name}", where=choice.where, hint=f"possible counts: {listed}")
    machine, accelerator = catalog.machine(name), Accelerator(gpu.name, count)
    wanted = RequestedMachine(name, accelerator)
    if machine.accelerator is None and not gpu.machines:
        return wanted, _attached(machine, accelerator, choice)
    if machine.accelerator != Accelerator(gpu.gke, count):
        built_in = machine.accelerator
        has = f"has {built_in.count} x {built_in.type}" if built_in else "takes none"
        fitting = catalog.smallest_machine(gpu, count)
        raise PlanError(
            f"{name} {has}, not {count} x {gpu.name}",
            where=choice.where,
            hint=f"{fitting} has so many" if fitting else "choose another count",
        )
    return wanted, Shape(name, machine.accelerator)


def _tpu_of_today(spec: MachineSpec, tpu: TpuSpec, choice: Choice) -> tuple[RequestedMachine, Shape]:
    found = machines_today.asked_slice(spec)
    if found is None or tpu.version is None:
        what = tpu.topology or f"{tpu.chips} chips"
        host = f" of {spec.machine_type}" if spec.machine_type else ""
        raise PlanError(f"there is no TPU {tpu.version} slice of {what}{host}", where=f"{choice.where}.tpu")
    chosen = catalog.tpu_slice(tpu.version.value, found)
    return (
        RequestedMachine(found.machine_type, Accelerator(f"TPU {tpu.version.value}", found.chips)),
        _slice_shape(chosen),
    )


def _slice_shape(found: catalog.TpuSlice, warnings: tuple[str, ...] = ()) -> Shape:
    return Shape(found.machine_type, found.accelerator, found.kind, found.topology, found.hosts, warnings)


def _old_tpu(accelerator: Accelerator, choice: Choice) -> Shape:
    tpu, offered = catalog.ai_platform_tpu(accelerator.type, accelerator.count)
    if tpu is None:
        raise PlanError(
            f"{accelerator.type} with {accelerator.count} cores is no longer offered, and nothing stands for it",
            where=choice.where,
            hint="choose a TPU of today by encamp.machines.worker.tpu, such as {version: v5e, topology: 2x4}",
        )
    chips = f"TPU {tpu.kind} ({tpu.accelerator.count} chips on a {tpu.machine_type})"
    if offered:
        return _slice_shape(tpu)
    if not choice.substitutes:
        raise _no_substitute(
            f"{accelerator.type} with {accelerator.count} cores", "TPU_V3 or a TPU of encamp.machines", choice
        )
    return _slice_shape(
        tpu, (f"{accelerator.type} is no longer offered; {chips} stands for its {accelerator.count} cores",)
    )


def _attached(machine: catalog.Machine, accelerator: Accelerator, choice: Choice) -> Shape:
    gpu = catalog.gpu(accelerator.type)
    count = accelerator.count
    warnings: tuple[str, ...] = ()
    if not gpu.offered and gpu.substitute is not None:
        name, counts = gpu.substitute
        gone = f"{accelerator.count} x {accelerator.type}"
        gpu, count = catalog.gpu(name), counts[accelerator.count]
        if not choice.substitutes:
            raise _no_substitute(gone, f"{count} x {name}", choice)
        warnings = (f"{gone} is no longer offered; {count} x {name} stands for it",)
    most = gpu.max_vcpu.get(count)
    if count not in gpu.counts or most is None or machine.vcpu > most:
        raise PlanError(
            f"GKE attaches no {count} x {gpu.name} to a {machine.name}",
            where=choice.where,
            hint=f"at most {most} vCPUs go with {count}" if most else "choose another number of accelerators",
        )
    return Shape(machine.name, Accelerator(gpu.gke, count), warnings=warnings)


def _no_substitute(gone: str, choose: str, choice: Choice) -> PlanError:
    return PlanError(
        f"{gone} is no longer offered, and encamp.substitutions is never",
        where=choice.where,
        hint=f"choose {choose}, or allow substitutions",
    )
