"""Node pools as the container API lists them, and the nodes that GKE would make of them.

Labels and taints: cloud.google.com/kubernetes-engine/docs/concepts/node-taints and .../how-to/gpus, .../tpus.

Beliefs: node-has-its-pools-label, node-name-begins-with-gke, node-provider-id, node-labels-of-its-machine,
node-label-of-metadata-server, node-label-of-spot, node-spot-has-no-taint, node-label-of-provisioning,
node-labels-of-gpus, node-taint-of-gpus, node-offers-gpus, node-conditions, gke-node-allocatable.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from encamp.plan.machines.allocatable import TPU_RESOURCE, allocatable, capacity, disk_amounts
from encamp.plan.machines.catalog import machine, single_host_topology
from encamp.plan.machines.system_pods import NodeFeature, SystemPod, device_features, system_pods
from encamp.plan.model import Accelerator, ResourceAmounts
from encamp_sandbox.kubelet import fit
from encamp_sandbox.kubelet.features import cluster_features, pool_features, streams_images
from encamp_sandbox.kubelet.network_devices import offered
from encamp_sandbox.kubelet.times import now, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

QUEUED_KEY = "cloud.google.com/gke-queued"
#: Nodes with Arm CPUs carry a taint of the same key: GKE's page of Arm workloads.
_ARCHITECTURE_KEY, _USUAL_ARCHITECTURE = "kubernetes.io/arch", "amd64"
POOL_LABEL = "cloud.google.com/gke-nodepool"
#: Annotation with the full name of the pool: two clusters may have pools of the same name.
POOL_NAME = "sandbox.encamp.dev/node-pool"
_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
#: GKE takes e2-medium, a shared-core machine of which the catalog has no figures; this is the next larger one.
_DEFAULT_MACHINE = "e2-standard-2"
_DEFAULT_PODS = 110
_DEFAULT_DISK_GB = 100
_MIB = 2**20
_LONGEST_PREFIX = 48


@dataclass(frozen=True)
class Pool:
    """A node pool.

    Attributes:
        full_name: ``projects/P/locations/L/clusters/C/nodePools/N``.
        zones: where its nodes are.
        minimum: nodes that are always there.
        maximum: nodes that it may grow to.
        autoscaled: whether it grows and shrinks.
        queued: whether its nodes come for provisioning requests only.
        atomic: whether all of its nodes come and go together (a multi-host TPU slice).
        max_run: how long a machine of it exists at most, None for ever.
        system: GKE's own pods on each of its nodes.
        devices: what each of its nodes offers to claims, by device class.
    """

    full_name: str
    name: str
    cluster: str
    region: str
    zones: tuple[str, ...]
    minimum: int
    maximum: int
    autoscaled: bool
    atomic: bool
    queued: bool
    max_run: timedelta | None
    machine_type: str
    labels: dict[str, str]
    taints: tuple[dict[str, str], ...]
    capacity: dict[str, str] = field(hash=False)
    allocatable: dict[str, str] = field(hash=False)
    system: tuple[SystemPod, ...] = ()
    devices: dict[str, int] = field(default_factory=dict, hash=False)

    def free(self) -> dict[str, Fraction]:
        """Return the resources that GKE's own pods leave on a node of this pool."""
        left = fit.free(self.allocatable)
        for pod in self.system:
            left["cpu"] -= Fraction(pod.cpu_millis, 1000)
            left["memory"] -= pod.memory_mib * _MIB
            left["pods"] -= 1
        return left | {name: Fraction(count) for name, count in self.devices.items()}

    @property
    def group(self) -> str:
        """The start of the names of its nodes."""
        return f"gke-{self.cluster}-{self.name}"[:_LONGEST_PREFIX].rstrip("-")

    def node(self, ordinal: int, host: str, port: int) -> dict[str, Any]:
        """Return a new Node object of this pool, ready.

        Args:
            ordinal: which one it is; spreads nodes over zones.
            host: address at which the API server finds this kubelet.
            port: its port there.
        """
        zone = self.zones[ordinal % len(self.zones)]
        name = f"{self.group}-{secrets.token_hex(4)}-{secrets.token_hex(2)}"
        labels = self.labels | {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
        project = self.full_name.split("/")[1]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {POOL_NAME: self.full_name}},
            "spec": {
                "taints": [dict(taint) for taint in self.taints],
                "providerID": f"gce://{project}/{zone}/{name}",
            },
            "status": node_status(
                self.capacity, self.allocatable, name, host, port, architecture=self.labels[_ARCHITECTURE_KEY]
            ),
        }


def read(cluster: Mapping[str, Any], pool: Mapping[str, Any], parent: str) -> Pool:
    """Return a pool from the container API's JSON.

    Args:
        cluster: the cluster that it is in.
        pool: the node pool.
        parent: the cluster's full name.

    Raises:
        PlanError: the catalog does not know its machine type.
    """
    config = pool.get("config") or {}
    scaling = pool.get("autoscaling") or {}
    zones = tuple(pool.get("locations") or cluster.get("locations") or [cluster["location"]])
    autoscaled = bool(scaling.get("enabled"))
    count = int(pool.get("initialNodeCount") or 0) * len(zones)
    machine_type = config.get("machineType") or _DEFAULT_MACHINE
    accelerator = _accelerator(config)
    whole = capacity(machine_type, accelerator)
    usable = allocatable(machine_type, accelerator, image_streaming=streams_images(cluster, config))
    features = cluster_features(cluster) | pool_features(config) | device_features(whole.devices)
    topology = (pool.get("placementPolicy") or {}).get("tpuTopology") or pool.get("placedTopology")
    pods = int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode") or _DEFAULT_PODS)
    disk = int(config.get("diskSizeGb") or _DEFAULT_DISK_GB)
    taints = [_taint(one) for one in config.get("taints") or []]
    own = [(device, "present") for device in whole.devices]
    queued = bool((pool.get("queuedProvisioning") or {}).get("enabled"))
    architecture = machine(machine_type).architecture
    own += [(QUEUED_KEY, "true")] if queued else []
    own += [(_ARCHITECTURE_KEY, architecture)] if architecture != _USUAL_ARCHITECTURE else []
    for key, value in own:
        if all(taint["key"] != key for taint in taints):
            taints.append({"key": key, "value": value, "effect": "NoSchedule"})
    region = "-".join(cluster["location"].split("-")[:2])
    return Pool(
        full_name=f"{parent}/nodePools/{pool['name']}",
        name=pool["name"],
        cluster=cluster["name"],
        region=region,
        zones=zones,
        minimum=_limit(scaling, "totalMinNodeCount", "minNodeCount", len(zones)) if autoscaled else count,
        maximum=_limit(scaling, "totalMaxNodeCount", "maxNodeCount", len(zones)) if autoscaled else count,
        autoscaled=autoscaled,
        atomic=topology is not None,
        queued=queued,
        max_run=_max_run(config),
        machine_type=machine_type,
        labels=_labels(pool, machine_type, region, whole, topology),
        taints=tuple(taints),
        capacity=_amounts(whole, pods, disk_amounts(disk)[0]),
        allocatable=_amounts(usable, pods, disk_amounts(disk)[1]),
        system=system_pods(features),
        devices=offered(pool, machine_type, dataplane_v2=NodeFeature.DATAPLANE_V2 in features),
    )


def node_status(
    whole: Mapping[str, str],
    usable: Mapping[str, str],
    name: str,
    host: str,
    port: int,
    *,
    architecture: str = _USUAL_ARCHITECTURE,
) -> dict[str, Any]:
    """Return the status of a node that is well."""
    moment = stamp(now())
    conditions = [("Ready", "True", "KubeletReady", "kubelet is posting ready status")]
    for kind in ("Memory", "Disk", "PID"):
        reason = f"KubeletHas{'Sufficient' if kind != 'Disk' else 'NoDisk'}{kind if kind != 'Disk' else 'Pressure'}"
        conditions.append((f"{kind}Pressure", "False", reason, f"kubelet has no {kind.lower()} pressure"))
    return {
        "capacity": dict(whole),
        "allocatable": dict(usable),
        "addresses": [{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "machineID": name,
            "systemUUID": name,
            "bootID": name,
            "kernelVersion": "",
            "osImage": "encamp sandbox",
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": "v1.36.3-encamp",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": architecture,
        },
        "conditions": [
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
            }
            for kind, value, reason, message in conditions
        ],
    }


def _limit(scaling: Mapping[str, Any], total: str, per_zone: str, zones: int) -> int:
    if scaling.get(total) is not None:
        return int(scaling[total])
    return int(scaling.get(per_zone) or 0) * zones


def _max_run(config: Mapping[str, Any]) -> timedelta | None:
    text = config.get("maxRunDuration")
    return timedelta(seconds=float(str(text).removesuffix("s"))) if text else None


def _accelerator(config: Mapping[str, Any]) -> Accelerator | None:
    for one in config.get("accelerators") or []:
        return Accelerator(one["acceleratorType"], int(one["acceleratorCount"]))
    return None


def _taint(taint: Mapping[str, str]) -> dict[str, str]:
    effect = taint["effect"]
    return {"key": taint["key"], "value": taint.get("value") or "", "effect": _EFFECTS.get(effect, effect)}


def _amounts(amounts: ResourceAmounts, pods: int, disk_gib: float) -> dict[str, str]:
    return {
        "cpu": f"{amounts.cpu_millis}m",
        "memory": f"{amounts.memory_mib}Mi",
        "ephemeral-storage": f"{int(disk_gib * 1024)}Mi",
        "pods": str(pods),
        **{name: str(count) for name, count in amounts.devices.items()},
    }


def _labels(
    pool: Mapping[str, Any], machine_type: str, region: str, whole: ResourceAmounts, topology: str | None
) -> dict[str, str]:
    config = pool.get("config") or {}
    spot = bool(config.get("spot") or config.get("preemptible"))
    flex_start = bool(config.get("flexStart"))
    how = "spot" if spot else "flex-start" if flex_start else "standard"
    family = machine_type.partition("-")[0]
    labels = {
        POOL_LABEL: pool["name"],
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/machine-family": family,
        "cloud.google.com/gke-provisioning": how,
        "iam.gke.io/gke-metadata-server-enabled": "true",
        "node.kubernetes.io/instance-type": machine_type,
        "beta.kubernetes.io/instance-type": machine_type,
        "topology.kubernetes.io/region": region,
        "kubernetes.io/os": "linux",
        _ARCHITECTURE_KEY: machine(machine_type).architecture,
    }
    if spot:
        labels["cloud.google.com/gke-spot"] = "true"
    if flex_start:
        labels["cloud.google.com/gke-flex-start"] = "true"
    affinity = config.get("reservationAffinity") or {}
    for reservation in affinity.get("values") or ():
        labels["cloud.google.com/reservation-name"] = reservation
    for one in config.get("accelerators") or []:
        labels["cloud.google.com/gke-accelerator"] = one["acceleratorType"]
        labels["cloud.google.com/gke-accelerator-count"] = str(one["acceleratorCount"])
    if TPU_RESOURCE in whole.devices:
        accelerator = machine(machine_type).accelerator
        labels["cloud.google.com/gke-tpu-accelerator"] = accelerator.type if accelerator else ""
        labels["cloud.google.com/gke-tpu-topology"] = topology or single_host_topology(machine_type) or ""
    return labels | (config.get("labels") or {})
