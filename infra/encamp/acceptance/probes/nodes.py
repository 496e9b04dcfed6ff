"""Probes of machines: names, labels, taints and capacity, as they were seen while a job lived."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.probe import of_job
from encamp.acceptance.watcher import LEASES
from encamp.cloud.quantity import parse
from encamp.plan.environment.gke import node_features
from encamp.plan.machines.allocatable import GPU_RESOURCE, allocatable
from encamp.plan.machines.rdma import node_features_of
from encamp.plan.machines.room import pods_of_gke

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from encamp.acceptance.cases import JobCase
    from encamp.plan.model import NodePoolPlan

_MIB, _MORE = 1024 * 1024, 1.02


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _differing(case: JobCase, wanted: Mapping[str, str]) -> str:
    """Return the labels of each machine that are to have a value, and where they have another one."""
    said = []
    for node, _ in case.nodes():
        name = node["metadata"]["name"]
        for key, value in wanted.items():
            found = _labels(node).get(key)
            expect(found == value, f"{name} has {key}={found}, believed {value}")
        said.append(name)
    return f"{', '.join(said)}: {', '.join(f'{key}={value}' for key, value in wanted.items())}"


@of_job("node-has-its-pools-label")
def has_its_pools_label(case: JobCase) -> str:
    """Compare machines with the pools that their groups belong to."""
    names = {pool.name for pool in case.plan.node_pools}
    said = []
    for node, _ in case.nodes():
        found = _labels(node)["cloud.google.com/gke-nodepool"]
        expect(found in names, f"{node['metadata']['name']} belongs to {found}, the job's pools are {sorted(names)}")
        said.append(f"{node['metadata']['name']} of {found}")
    return ", ".join(said)


@of_job("node-name-begins-with-gke")
def name_begins_with_gke(case: JobCase) -> str:
    """Look at the names of machines."""
    said = []
    for node, pool in case.nodes():
        name = node["metadata"]["name"]
        cluster = case.outputs.cluster
        expect(name.startswith(f"gke-{cluster}-{pool.name[:8]}"), f"a machine of {pool.name} is called {name}")
        said.append(name)
    return ", ".join(said)


@of_job("node-provider-id")
def provider_id(case: JobCase) -> str:
    """Compare provider ids with names and zones."""
    said = []
    for node, _ in case.nodes():
        zone = _labels(node).get("topology.kubernetes.io/zone")
        wanted = f"gce://{case.plan.project}/{zone}/{node['metadata']['name']}"
        found = node["spec"].get("providerID")
        expect(found == wanted, f"providerID {found}, believed {wanted}")
        said.append(wanted)
    return ", ".join(said)


@of_job("node-labels-of-its-machine")
def labels_of_its_machine(case: JobCase) -> str:
    """Compare the labels that name the machine and its place."""
    said = []
    for node, pool in case.nodes():
        labels = _labels(node)
        wanted = {
            "node.kubernetes.io/instance-type": pool.machine_type,
            "cloud.google.com/machine-family": pool.machine_type.partition("-")[0],
            "topology.kubernetes.io/region": case.outputs.location,
        }
        found = {key: labels.get(key) for key in wanted}
        expect(found == wanted, f"{node['metadata']['name']} has {found}, believed {wanted}")
        said.append(f"{node['metadata']['name']}: {', '.join(map(str, found.values()))}")
    return "; ".join(said)


@of_job("node-label-of-metadata-server")
def label_of_metadata_server(case: JobCase) -> str:
    """Look for the label that Workload Identity needs."""
    return _differing(case, {"iam.gke.io/gke-metadata-server-enabled": "true"})


@of_job("node-label-of-spot", "spot")
def label_of_spot(case: JobCase) -> str:
    """Look for the label of Spot machines."""
    return _differing(case, {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-provisioning": "spot"})


@of_job("node-spot-has-no-taint", "spot")
def spot_has_no_taint(case: JobCase) -> str:
    """Look for taints that nobody asked for."""
    for node, pool in case.nodes():
        keys = {taint["key"] for taint in node["spec"].get("taints") or ()} - _PASSING
        expect(keys == _asked(pool), f"{node['metadata']['name']} has the taints {sorted(keys)}")
    return "no taint but those of its pool"


@of_job("node-label-of-provisioning", "cpu")
def label_of_provisioning(case: JobCase) -> str:
    """Look at how machines on demand say that they are."""
    return _differing(case, {"cloud.google.com/gke-provisioning": "standard"})


@of_job("node-labels-of-gpus", "l4")
def labels_of_gpus(case: JobCase) -> str:
    """Look for the label by which replicas choose their GPU."""
    return _differing(case, {"cloud.google.com/gke-accelerator": "nvidia-l4"})


@of_job("node-taint-of-gpus", "l4")
def taint_of_gpus(case: JobCase) -> str:
    """Look for the taint that keeps other pods off."""
    for node, _ in case.nodes():
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] == GPU_RESOURCE]
        found = [(taint.get("value"), taint["effect"]) for taint in taints]
        expect(found == [("present", "NoSchedule")], f"{node['metadata']['name']} has the taint {found}")
    return f"{GPU_RESOURCE}=present:NoSchedule"


@of_job("node-offers-gpus", "l4")
def offers_gpus(case: JobCase) -> str:
    """Compare GPUs on offer with those of the pool."""
    for node, pool in case.nodes():
        found = node["status"]["allocatable"].get(GPU_RESOURCE)
        wanted = str(pool.accelerator.count) if pool.accelerator is not None else None
        expect(found == wanted, f"{node['metadata']['name']} offers {found} of {GPU_RESOURCE}, believed {wanted}")
    return f"{GPU_RESOURCE}: 1"


@of_job("gke-node-allocatable")
def node_allocatable(case: JobCase) -> str:
    """Compare what machines offer with what plans count on: the same CPU, and no less memory.

    Without image streaming there is more of it; the operating system's part differs a little from version to version.
    """
    said = []
    for node, pool in case.nodes():
        believed = allocatable(pool.machine_type, pool.accelerator)
        most = allocatable(pool.machine_type, pool.accelerator, image_streaming=False).memory_mib * _MORE
        offered, name = node["status"]["allocatable"], node["metadata"]["name"]
        cpu, memory = int(parse(offered["cpu"]) * 1000), int(parse(offered["memory"]) / _MIB)
        wanted = f"{believed.cpu_millis}m and {believed.memory_mib}Mi"
        expect(
            cpu == believed.cpu_millis and believed.memory_mib <= memory <= most,
            f"{name} offers {cpu}m and {memory}Mi, believed {wanted}",
        )
        said.append(f"{name}: {wanted}")
    return "; ".join(said)


@of_job("gke-system-pods")
def system_pods_of_gke(case: JobCase) -> str:
    """Compare what GKE's own pods on each machine ask for with the room that plans leave for them."""
    said = []
    for node, pool in case.nodes():
        features = node_features_of(pool, node_features(case.environment))
        believed = pods_of_gke(pool.machine_type, pool.accelerator, features)
        containers = [one for pod in case.system_pods(node) for one in pod["spec"]["containers"]]
        cpu = int(_requested(containers, "cpu") * 1000)
        memory = int(_requested(containers, "memory") / _MIB)
        found, name = f"GKE's pods on {node['metadata']['name']} ask for {cpu}m and {memory}Mi", pool.machine_type
        room = f"room is left on {name} for {believed.cpu_millis}m and {believed.memory_mib}Mi"
        expect(cpu <= believed.cpu_millis and memory <= believed.memory_mib, f"{found}; {room}")
        said.append(f"{found}; {room}")
    return "; ".join(said)


def _requested(containers: Iterable[Mapping[str, Any]], resource: str) -> Fraction:
    requests = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    return sum((parse(each[resource]) for each in requests if resource in each), Fraction(0))


@of_job("node-conditions")
def conditions(case: JobCase) -> str:
    """Look for the conditions that a kubelet posts."""
    wanted = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
    for node, _ in case.nodes():
        found = {one["type"] for one in node["status"].get("conditions") or ()}
        expect(wanted <= found, f"{node['metadata']['name']} has the conditions {sorted(found)}")
    return f"every machine has {', '.join(sorted(wanted))}"


@of_job("node-lease-is-renewed")
def lease_is_renewed(case: JobCase) -> str:
    """Look at how long each machine's lease lasts, and how often it was renewed."""
    said = []
    for _, versions in case.sightings.versions(LEASES):
        spec = versions[-1].item["spec"]
        name, lasts = versions[-1].item["metadata"]["name"], spec.get("leaseDurationSeconds")
        expect(lasts == _LEASE_SECONDS, f"the lease of {name} lasts {lasts} s")
        renewed = [datetime.fromisoformat(one.item["spec"]["renewTime"]).timestamp() for one in versions]
        late = max((one.at - at for one, at in zip(versions, renewed, strict=True)), default=0.0)
        expect(late < _LEASE_SECONDS, f"the lease of {name} was not renewed for {late:.0f} s")
        said.append(name)
    if not said:
        raise NotAskedError(case.refused.get(LEASES) or "no lease was seen")
    return f"{len(said)} leases of {_LEASE_SECONDS} s, renewed in time"


def _asked(pool: NodePoolPlan) -> set[str]:
    """Return keys of the taints that a pool is made with."""
    return {pool.taint[0]}


_LEASE_SECONDS: Final = 40
#: Taints that come and go with a machine's health.
_PASSING = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
}
