"""Every machine of the catalog has room for one replica and GKE's own pods, or is refused with the way out."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp.plan.machines.allocatable import allocatable
from encamp.plan.machines.room import SIDECAR, replica_room
from encamp.plan.machines.system_pods import NodeFeature, device_features, system_pods, total
from encamp.plan.model import Accelerator, ResourceAmounts
from encamp.spec import machines_today
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a cluster that encamp makes has always.
MADE = frozenset(
    {
        NodeFeature.DATAPLANE_V2,
        NodeFeature.LOGGING,
        NodeFeature.MONITORING,
        NodeFeature.MANAGED_PROMETHEUS,
        NodeFeature.WORKLOAD_IDENTITY,
        NodeFeature.PERSISTENT_DISKS,
        NodeFeature.GCS_FUSE,
        NodeFeature.DNS_CACHE,
        NodeFeature.DCGM,
    }
)
CLUSTERS = {
    "made": MADE,
    "without monitoring": MADE
    - {NodeFeature.DCGM, NodeFeature.MONITORING, NodeFeature.MANAGED_PROMETHEUS, NodeFeature.LOGGING},
    "adopted": MADE - {NodeFeature.DATAPLANE_V2} | {NodeFeature.DATAPLANE_V1},
}
#: Machines on which GKE's own pods leave less than half of what there is, in a cluster that encamp makes.
TOO_SMALL = {"n1-standard-1", "n1-highcpu-2", "n2-highcpu-2", "e2-highcpu-2"}
#: More of them with GPUs, or in a cluster that is adopted and may have a network of the old kind.
BARELY_LARGE_ENOUGH = {"n1-highcpu-4"}


def every_machine() -> Iterator[tuple[str, Accelerator | None]]:
    """Each machine type, and each with the most of every GPU that may be attached to it."""
    for name in sorted(machines_today.machine_types()):
        whole = catalog.machine(name)
        yield name, None
        for gpu in map(catalog.gpu, data_file("gpus")):
            counts = [count for count, most in gpu.max_vcpu.items() if whole.vcpu <= most]
            if whole.accelerator is None and name.startswith(gpu.family) and counts:
                yield name, Accelerator(gpu.gke, max(counts))


MACHINES = list(every_machine())
CASES = list(product(CLUSTERS, [None, SIDECAR]))


@pytest.mark.parametrize(("name", "accelerator"), MACHINES)
def test_one_replica_fits_beside_gkes_own_pods_and_no_second_one_does(
    name: str, accelerator: Accelerator | None
) -> None:
    driver = {NodeFeature.NETWORK_DRIVER} if catalog.machine(name).rdma_nics else frozenset[NodeFeature]()
    for cluster, beside in CASES:
        features = CLUSTERS[cluster] | driver
        node = allocatable(name, accelerator)
        system = total(system_pods({*features, *device_features(node.devices)}))
        if _too_small(node, system):
            expected = TOO_SMALL if accelerator is None and cluster != "adopted" else TOO_SMALL | BARELY_LARGE_ENOUGH
            assert name in expected or (cluster == "adopted" and catalog.machine(name).vcpu <= 2)
            with pytest.raises(PlanError, match=f"{name} is too small .* ask for") as caught:
                replica_room(name, accelerator, features, beside=beside)
            larger = str(caught.value.hint).rpartition(" ")[2]
            assert larger.startswith(name.partition("-")[0])
            assert replica_room(larger, accelerator, features, beside=beside)
            continue
        room = replica_room(name, accelerator, features, beside=beside)
        other = beside or ResourceAmounts(0, 0)
        for asked, left, taken, extra in (
            (room.request.cpu_millis, node.cpu_millis, system.cpu_millis, other.cpu_millis),
            (room.request.memory_mib, node.memory_mib, system.memory_mib, other.memory_mib),
        ):
            assert asked > 0
            assert 2 * (asked + extra) > left
            assert asked + extra + taken + 50 <= left
        assert 0 < room.shared_memory_mib < room.request.memory_mib
        assert room.request.devices == node.devices


def _too_small(node: ResourceAmounts, system: ResourceAmounts) -> bool:
    """Whether more than half of a node, GKE's pods and the least of their growth are more than there is."""
    pairs = ((node.cpu_millis, system.cpu_millis), (node.memory_mib, system.memory_mib))
    return any(left // 2 + 1 + taken + 50 > left for left, taken in pairs)


def test_the_machines_that_the_old_formula_let_pend() -> None:
    for name in ("g2-standard-4", "n1-highcpu-8", "n1-standard-2"):
        system = total(system_pods(MADE | device_features(allocatable(name).devices)))
        assert system.cpu_millis > 500
        room = replica_room(name, None, MADE)
        assert room.request.cpu_millis + system.cpu_millis < allocatable(name).cpu_millis


def test_every_system_pod_says_how_sure_it_is() -> None:
    for entry in data_file("system_pods")["pods"]:
        assert entry["sure"] in {"recorded", "documented", "believed"}, entry["name"]
        assert entry["source"], entry["name"]
        assert all(NodeFeature(need) for need in entry["needs"])


def test_features_bring_their_pods() -> None:
    plain = {pod.name for pod in system_pods(MADE)}
    assert {"anetd", "fluentbit-gke", "gke-metadata-server", "collector", "gcsfusecsi-node"} <= plain
    assert not plain & {"kube-proxy", "nvidia-gpu-device-plugin", "dcgm-exporter", "tpu-device-plugin"}
    assert {pod.name for pod in system_pods(MADE | {NodeFeature.GPU})} - plain == {
        "nvidia-gpu-device-plugin",
        "dcgm-exporter",
    }
    assert {pod.name for pod in system_pods(MADE | {NodeFeature.TPU})} - plain == {"tpu-device-plugin"}
