"""The share of its machine that a replica gets.

A replica is alone on its machine, so it asks for more than half of what GKE leaves to pods. It leaves room for GKE's
own pods and for their growth. Its memory is limited to what it asks for: without a limit, a replica that needs too much
would be evicted, which looks like a machine that was taken away and is tried again for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.machines.allocatable import allocatable
from encamp.plan.machines.catalog import machine
from encamp.plan.machines.system_pods import NodeFeature, device_features, system_pods, total
from encamp.plan.model import Accelerator, ResourceAmounts
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Collection

#: Requests of GKE's sidecar of Cloud Storage FUSE (its limits are lifted, so that large machines read fast).
SIDECAR = ResourceAmounts(250, 256)


@dataclass(frozen=True)
class ReplicaRoom:
    """The resources of one replica's container.

    Attributes:
        request: what it asks for; of memory also the most that it may use. CPUs that are idle it may use too.
        shared_memory_mib: size of ``/dev/shm``, a part of that memory: half of it, as Linux itself does.
    """

    request: ResourceAmounts
    shared_memory_mib: int


def replica_room(
    machine_type: str,
    accelerator: Accelerator | None,
    features: Collection[NodeFeature],
    *,
    beside: ResourceAmounts | None = None,
    image_streaming: bool = True,
) -> ReplicaRoom:
    """Return the resources that one replica gets of a machine.

    Args:
        machine_type: a machine type of the catalog.
        accelerator: GPUs attached to it, in GKE's name; built-in ones and TPU chips need not be named.
        features: features of its cluster, and ``NETWORK_DRIVER`` where the node has it.
        beside: what else of the same pod asks for.
        image_streaming: whether the node's images may be streamed.

    Raises:
        PlanError: the machine has no room for a replica beside GKE's own pods.
    """
    node = allocatable(machine_type, accelerator, image_streaming=image_streaming)
    cpu, memory = _shares(node, features)
    if cpu is None or memory is None:
        raise _too_small(machine_type, accelerator, node, features)
    other = beside or ResourceAmounts(0, 0)
    request = ResourceAmounts(cpu - other.cpu_millis, memory - other.memory_mib, node.devices)
    return ReplicaRoom(request, request.memory_mib // 2)


def pods_of_gke(
    machine_type: str, accelerator: Accelerator | None, features: Collection[NodeFeature]
) -> ResourceAmounts:
    """Return the sum of requests of GKE's own pods on a machine; see :func:`replica_room`."""
    return _of_gke(allocatable(machine_type, accelerator), features)


def _of_gke(node: ResourceAmounts, features: Collection[NodeFeature]) -> ResourceAmounts:
    return total(system_pods({*features, *device_features(node.devices)}))


def _shares(node: ResourceAmounts, features: Collection[NodeFeature]) -> tuple[int | None, int | None]:
    """Return milli-CPUs and MiB that a pod may ask for, None where GKE's own pods leave too little."""
    taken = _of_gke(node, features)
    return _share("cpuMillis", node.cpu_millis, taken.cpu_millis), _share(
        "memoryMib", node.memory_mib, taken.memory_mib
    )


def _share(kind: str, room: int, taken: int) -> int | None:
    """Return a share above half of the node, so that no second such pod fits, and within what GKE's own pods leave."""
    growth = data_file("system_pods")["growth"][kind]
    alone = room // 2 + 1
    usual = room - taken - max(growth["usual"], int(room * growth["share"]))
    if usual >= alone:
        return usual
    return alone if alone + taken + growth["least"] <= room else None


def _too_small(
    machine_type: str, accelerator: Accelerator | None, node: ResourceAmounts, features: Collection[NodeFeature]
) -> PlanError:
    taken = _of_gke(node, features)
    cpu = (node.cpu_millis, taken.cpu_millis, "milli-CPUs")
    memory = (node.memory_mib, taken.memory_mib, "MiB of memory")
    left, asked, unit = cpu if _shares(node, features)[0] is None else memory
    larger = _larger(machine_type, accelerator, features)
    return PlanError(
        f"{machine_type} is too small for a replica: GKE leaves {left} {unit} to pods, and its own pods on the node "
        f"ask for {asked} of them",
        hint=f"choose a larger machine type{f', such as {larger}' if larger else ''}",
    )


def _larger(machine_type: str, accelerator: Accelerator | None, features: Collection[NodeFeature]) -> str | None:
    """Return the smallest machine of the same family with room for a replica; None if there is none."""
    family, small = machine_type.partition("-")[0], machine(machine_type)
    fitting = [
        each
        for each in map(machine, data_file("machines"))
        if each.name.partition("-")[0] == family
        and each.accelerator == small.accelerator
        and each.vcpu >= small.vcpu
        and None not in _shares(allocatable(each.name, accelerator), features)
    ]
    return min(fitting, key=lambda each: (each.vcpu, each.memory_gib)).name if fitting else None
