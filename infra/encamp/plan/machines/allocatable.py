"""Capacity of a GKE node, and its part that GKE leaves to pods (allocatable).

The plan and the sandbox's nodes use the same figures (``spec/data/node_sizes.json``): those by which GKE's own cluster
autoscaler predicts a node that does not exist yet. What GKE's own pods then take is in ``system_pods``. Beliefs:
gke-node-allocatable, gke-node-os-memory, gke-node-allocatable-disk.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from encamp.plan.machines.catalog import machine
from encamp.plan.model import Accelerator, ResourceAmounts
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU_RESOURCE = "nvidia.com/gpu"
TPU_RESOURCE = "google.com/tpu"

_MIB = 1024


def capacity(machine_type: str, accelerator: Accelerator | None = None) -> ResourceAmounts:
    """Return the capacity of a node of a machine type.

    Args:
        machine_type: a machine type of the catalog.
        accelerator: GPUs attached to it, in GKE's name; built-in ones and TPU chips need not be named.

    Raises:
        PlanError: the catalog does not know the machine.
    """
    found = machine(machine_type)
    kept = _between(found.memory_gib, data_file("node_sizes")["operatingSystem"][found.architecture])
    memory = int(found.memory_gib * _MIB - kept)
    return ResourceAmounts(found.vcpu * 1000, memory, devices(found.accelerator or accelerator))


def allocatable(
    machine_type: str, accelerator: Accelerator | None = None, *, image_streaming: bool = True
) -> ResourceAmounts:
    """Return the allocatable resources of such a node: its capacity less what GKE reserves.

    Args:
        machine_type: as in :func:`capacity`.
        accelerator: as in :func:`capacity`.
        image_streaming: whether its images are streamed, for which GKE reserves memory.
    """
    whole, nominal = capacity(machine_type, accelerator), int(machine(machine_type).memory_gib * _MIB)
    sizes = data_file("node_sizes")
    cpu = whole.cpu_millis - _reserved(whole.cpu_millis, sizes["cpu"]["steps"])
    kept = _reserved(nominal, sizes["memory"]["steps"])
    if image_streaming:
        factor = sizes["memory"]["imageStreamingFactor"]
        kept += _reserved(nominal, [(width, share * factor) for width, share in sizes["memory"]["steps"]])
    return ResourceAmounts(cpu, whole.memory_mib - kept - sizes["memory"]["evictionMib"], whole.devices)


def disk_amounts(disk_gib: int) -> tuple[float, float]:
    """Return GiB of a node's boot disk that Kubernetes counts in all, and those that pods may use."""
    sizes = data_file("node_sizes")["disk"]
    whole = disk_gib - sizes["operatingSystemGib"]
    reserved = min(
        sizes["baseGib"] + int(sizes["share"] * disk_gib), int(sizes["mostShare"] * disk_gib), sizes["mostGib"]
    )
    return whole, whole * (1 - sizes["evictionShare"]) - reserved


def devices(accelerator: Accelerator | None) -> dict[str, int]:
    """Return extended resources of an accelerator in GKE's name."""
    if accelerator is None:
        return {}
    resource = TPU_RESOURCE if accelerator.type.startswith("tpu") else GPU_RESOURCE
    return {resource: accelerator.count}


def _reserved(amount: int, steps: Sequence[tuple[int | None, float]]) -> int:
    """Return the reserved part of an amount.

    Each step is a width, None for the rest, and the share of it that is kept.
    """
    reserved, left = 0.0, amount
    for width, share in steps:
        part = left if width is None else min(left, width)
        reserved += part * share
        left -= part
    return int(reserved)


def _between(size: float, known: Sequence[tuple[float, float]]) -> float:
    """Return a value by the two known sizes around it, beyond the largest by the last two."""
    pairs = list(pairwise(known))
    (low, first), (high, second) = next((pair for pair in pairs if size <= pair[1][0]), pairs[-1])
    return first + (size - low) / (high - low) * (second - first)
