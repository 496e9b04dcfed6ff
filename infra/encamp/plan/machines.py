"""From AI Platform's machines to GKE's: tiers, legacy types, GPUs and TPUs, and what stands for what is gone."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.errors import PlanError
from encamp.plan import catalog
from encamp.plan.model import Accelerator, RequestedMachine


@dataclass(frozen=True)
class Shape:
    """The machine of a replica on GKE, in GKE's names.

    Attributes:
        tpu_topology: topology of the TPU slice it is a host of.
        tpu_hosts: hosts of that slice.
        warnings: what was taken instead of what; each names both.
    """

    machine_type: str
    accelerator: Accelerator | None
    tpu_topology: str | None = None
    tpu_hosts: int | None = None
    warnings: tuple[str, ...] = ()


def requested(machine_type: str, accelerator: Accelerator | None) -> RequestedMachine:
    """What a job asks for, the accelerators of legacy types and of machines with built-in ones made explicit."""
    legacy = catalog.legacy_machine_type(machine_type)
    if legacy is not None:
        return RequestedMachine(machine_type, accelerator or legacy[1])
    built_in = catalog.built_in_accelerator(machine_type)
    return RequestedMachine(machine_type, accelerator or built_in)


def shape(wanted: RequestedMachine) -> Shape:
    """The machine on GKE that stands for a requested one.

    Raises:
        PlanError: nothing that Google offers today can stand for it.
    """
    accelerator = wanted.accelerator
    if accelerator is not None and accelerator.type.startswith("TPU"):
        return _tpu(accelerator)
    legacy = catalog.legacy_machine_type(wanted.machine_type)
    machine = catalog.machine((legacy[0] if legacy else None) or wanted.machine_type)
    if accelerator is None or machine.accelerator is not None:
        return Shape(machine.name, machine.accelerator)
    return _attached(machine, accelerator)


def _tpu(accelerator: Accelerator) -> Shape:
    tpu, offered = catalog.ai_platform_tpu(accelerator.type)
    chips = f"TPU {tpu.kind} ({tpu.accelerator.count} chips on a {tpu.machine_type})"
    warning = f"{accelerator.type} is no longer offered; {chips} stands for its {accelerator.count} cores"
    warnings = () if offered else (warning,)
    return Shape(tpu.machine_type, tpu.accelerator, tpu.topology, tpu.hosts, warnings)


def _attached(machine: catalog.Machine, accelerator: Accelerator) -> Shape:
    gpu = catalog.gpu(accelerator.type)
    count = accelerator.count
    warnings: tuple[str, ...] = ()
    if not gpu.offered and gpu.substitute is not None:
        name, counts = gpu.substitute
        gpu, count = catalog.gpu(name), counts[accelerator.count]
        warnings = (f"{accelerator.count} x {accelerator.type} is no longer offered; {count} x {name} stands for it",)
    most = gpu.max_vcpu.get(count)
    if count not in gpu.counts or most is None or machine.vcpu > most:
        raise PlanError(
            f"GKE attaches no {count} x {gpu.name} to a {machine.name}",
            hint=f"at most {most} vCPUs go with {count}" if most else "choose another number of accelerators",
        )
    return Shape(machine.name, Accelerator(gpu.gke, count), warnings=warnings)
