"""How much of a machine pods may use on GKE, and how much of that one replica asks for.

One function for both sides: the plan asks for what fits, and the sandbox's nodes offer what GKE's would. The reserved
shares are GKE's (belief ``gke-node-allocatable``); what the node's own pods take is an allowance of this project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.machines.catalog import machine
from encamp.plan.model import Accelerator, ResourceAmounts

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU_RESOURCE = "nvidia.com/gpu"
TPU_RESOURCE = "google.com/tpu"

#: What GKE's sidecar of Cloud Storage FUSE asks for (its limits are lifted, so that large machines read fast).
SIDECAR = ResourceAmounts(250, 256)

_MIB = 1024
#: Reserved share of CPU by core: the first, the second, the third and fourth, every further one.
_CPU_STEPS = ((1, 0.06), (1, 0.01), (2, 0.005), (None, 0.0025))
#: Reserved share of memory by GiB: the first 4, the next 4, 8 and 112, and everything above 128.
_MEMORY_STEPS = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (None, 0.02))
#: Memory below which the kubelet evicts pods.
_EVICTION_MIB = 100
#: The kernel keeps this share of the nominal memory; the kubelet never sees it.
_KERNEL_SHARE = 0.025

#: What GKE's own pods on a node (logging, metrics, networking, metadata) may ask for.
_SYSTEM_PODS_CPU_SHARE = 0.12
_SYSTEM_PODS_CPU_MILLIS = (150, 700)
_SYSTEM_PODS_MEMORY_SHARE = 0.10
_SYSTEM_PODS_MEMORY_MIB = (250, 1500)


def capacity(machine_type: str, accelerator: Accelerator | None = None) -> ResourceAmounts:
    """What a node of a machine type has in all.

    Args:
        machine_type: a machine type of the catalog.
        accelerator: GPUs attached to it, in GKE's name; built-in ones and TPU chips need not be named.

    Raises:
        PlanError: the catalog does not know the machine.
    """
    found = machine(machine_type)
    attached = found.accelerator or accelerator
    memory = int(found.memory_gib * _MIB * (1 - _KERNEL_SHARE))
    return ResourceAmounts(found.vcpu * 1000, memory, devices(attached))


def allocatable(machine_type: str, accelerator: Accelerator | None = None) -> ResourceAmounts:
    """What pods may use of such a node: its capacity less what GKE reserves; arguments as in :func:`capacity`."""
    whole = capacity(machine_type, accelerator)
    nominal_gib = machine(machine_type).memory_gib
    cpu = whole.cpu_millis - round(_reserved(whole.cpu_millis / 1000, _CPU_STEPS) * 1000)
    memory = whole.memory_mib - round(_reserved(nominal_gib, _MEMORY_STEPS) * _MIB) - _EVICTION_MIB
    return ResourceAmounts(cpu, memory, whole.devices)


def replica_request(
    machine_type: str, accelerator: Accelerator | None = None, *, beside: ResourceAmounts | None = None
) -> ResourceAmounts:
    """What one replica asks for: so much that no second one fits, so little that GKE's own pods do.

    Args:
        machine_type: as in :func:`capacity`.
        accelerator: as in :func:`capacity`.
        beside: what else of the same pod asks for; a small machine has no room for it beyond GKE's own pods.
    """
    node, other = allocatable(machine_type, accelerator), beside or ResourceAmounts(0, 0)
    cpu = node.cpu_millis - _within(node.cpu_millis * _SYSTEM_PODS_CPU_SHARE, _SYSTEM_PODS_CPU_MILLIS)
    memory = node.memory_mib - _within(node.memory_mib * _SYSTEM_PODS_MEMORY_SHARE, _SYSTEM_PODS_MEMORY_MIB)
    return ResourceAmounts(cpu - other.cpu_millis, memory - other.memory_mib, node.devices)


def devices(accelerator: Accelerator | None) -> dict[str, int]:
    """Extended resources of an accelerator in GKE's name."""
    if accelerator is None:
        return {}
    resource = TPU_RESOURCE if accelerator.type.startswith("tpu") else GPU_RESOURCE
    return {resource: accelerator.count}


def _reserved(amount: float, steps: Sequence[tuple[int | None, float]]) -> float:
    reserved, left = 0.0, amount
    for width, share in steps:
        part = left if width is None else min(left, width)
        reserved += part * share
        left -= part
    return reserved


def _within(value: float, bounds: tuple[int, int]) -> int:
    return min(max(int(value), bounds[0]), bounds[1])
