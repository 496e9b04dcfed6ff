"""GKE's own pods on a node: their requests, by the features of the cluster and the devices of the machine.

The table is ``spec/data/system_pods.json``. The plan leaves room for them, and the sandbox's nodes carry them as pods.
Belief: gke-system-pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE
from encamp.plan.model import ResourceAmounts
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class NodeFeature(StrEnum):
    """A feature that brings GKE's pods onto a node. The last four are of the node, the others of its cluster."""

    DATAPLANE_V2 = "dataplane-v2"
    DATAPLANE_V1 = "dataplane-v1"
    LOGGING = "logging"
    MONITORING = "monitoring"
    MANAGED_PROMETHEUS = "managed-prometheus"
    WORKLOAD_IDENTITY = "workload-identity"
    PERSISTENT_DISKS = "persistent-disks"
    GCS_FUSE = "gcs-fuse"
    DNS_CACHE = "dns-cache"
    DCGM = "dcgm"
    GPU = "gpu"
    TPU = "tpu"
    NETWORK_DRIVER = "network-driver"


@dataclass(frozen=True)
class SystemPod:
    """One of GKE's pods on every node that it is for: its name there, and its requests."""

    name: str
    namespace: str
    cpu_millis: int
    memory_mib: int


def device_features(devices: Mapping[str, int]) -> frozenset[NodeFeature]:
    """Return features that come with a node's devices."""
    found = {GPU_RESOURCE: NodeFeature.GPU, TPU_RESOURCE: NodeFeature.TPU}
    return frozenset(feature for resource, feature in found.items() if resource in devices)


def system_pods(features: Collection[NodeFeature]) -> tuple[SystemPod, ...]:
    """Return GKE's pods on a node with these features."""
    return tuple(
        SystemPod(entry["name"], entry["namespace"], entry["cpuMillis"], entry["memoryMib"])
        for entry in data_file("system_pods")["pods"]
        if all(NodeFeature(need) in features for need in entry["needs"])
    )


def total(pods: Iterable[SystemPod]) -> ResourceAmounts:
    """Return the sum of the pods' requests."""
    listed = tuple(pods)
    return ResourceAmounts(sum(pod.cpu_millis for pod in listed), sum(pod.memory_mib for pod in listed))
