"""Fields of a node pool that GKE fills in.

Belief ``gke-fills-pools``. Source:
cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from encamp.spec import machines_today
from encamp_sandbox.cloud.rest.values import at, default, short
from encamp_sandbox.cloud.services.container.machine_fill import fill_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Change

SCOPES: Final = [
    f"https://www.googleapis.com/auth/{name}"
    for name in (
        "devstorage.read_only", "logging.write", "monitoring", "service.management.readonly", "servicecontrol",
        "trace.append",
    )
]  # fmt: skip
_GROUPS = "https://www.googleapis.com/compute/v1"
_MOST_PODS = 110


def fill_pool(change: Change) -> None:
    """Fill in a new pool."""
    cluster = change.cloud.store.get(change.parent).body
    pool = change.body
    pool.pop("etag", None)
    default(pool, {"config": {}, "initialNodeCount": 0})
    fill_config(pool["config"], cluster)
    default(
        pool,
        {
            "locations": list(cluster["locations"]),
            "version": cluster["currentMasterVersion"],
            "management": {"autoRepair": True, "autoUpgrade": True},
            "upgradeSettings": {"maxSurge": 1, "strategy": "SURGE"},
            "maxPodsConstraint": {"maxPodsPerNode": at(cluster, "defaultMaxPodsConstraint.maxPodsPerNode")},
            "networkConfig.podRange": at(cluster, "ipAllocationPolicy.clusterSecondaryRangeName"),
            "networkConfig.podIpv4CidrBlock": cluster.get("clusterIpv4Cidr"),
            "networkConfig.enablePrivateNodes": bool(at(cluster, "networkConfig.defaultEnablePrivateNodes")),
        },
    )
    pool["podIpv4CidrSize"] = 24 if int(at(pool, "maxPodsConstraint.maxPodsPerNode") or 0) > _MOST_PODS // 2 else 26
    if pool.get("autoscaling", {}).get("enabled"):
        default(pool, {"autoscaling.locationPolicy": "BALANCED"})
    _fill_groups(change, change.project)
    _fill_counts(pool, change.cloud)


def fill_config(config: dict[str, Any], cluster: Mapping[str, Any]) -> None:
    """Fill in a node config."""
    defaults = at(dict(cluster), "nodePoolDefaults.nodeConfigDefaults") or {}
    default(
        config,
        {
            "machineType": "e2-medium",
            "diskSizeGb": 100,
            "diskType": "pd-balanced",
            "imageType": "COS_CONTAINERD",
            "serviceAccount": "default",
            "oauthScopes": SCOPES,
            "metadata": {"disable-legacy-endpoints": "true"},
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
            "loggingConfig.variantConfig.variant": at(defaults, "loggingConfig.variantConfig.variant") or "DEFAULT",
            "gcfsConfig": defaults.get("gcfsConfig"),
            "kubeletConfig.insecureKubeletReadonlyPortEnabled": bool(
                at(defaults, "nodeKubeletConfig.insecureKubeletReadonlyPortEnabled")
            ),
            "windowsNodeConfig": {},
            "effectiveCgroupMode": "EFFECTIVE_CGROUP_MODE_V2",
        },
    )
    config["bootDisk"] = {"diskType": config["diskType"], "sizeGb": str(config["diskSizeGb"])}
    model = "spot" if config.get("spot") else "flex-start" if config.get("flexStart") else "on-demand"
    default(config, {"resourceLabels": {}})
    config["resourceLabels"].setdefault("goog-gke-node-pool-provisioning-model", model)
    fill_machine(config, cluster)


def _fill_groups(change: Change, project: str) -> None:
    cluster = change.name.split("/")[5]
    name, suffix = change.name.rpartition("/")[2], secrets.token_hex(4)
    change.body["instanceGroupUrls"] = [
        f"{_GROUPS}/projects/{project}/zones/{zone}/instanceGroupManagers/gke-{cluster}-{name}-{suffix}-grp"
        for zone in change.body["locations"]
    ]


def _fill_counts(pool: dict[str, Any], cloud: Cloud) -> None:
    """Fill in the initial number of nodes, the sandbox's own field, which the autoscaler sets afterwards."""
    scaling = pool.get("autoscaling") or {}
    least = int(pool["initialNodeCount"]) * len(pool["locations"])
    pool["currentNodeCount"] = max(least, int(scaling.get("totalMinNodeCount") or 0))
    if topology := placed_topology(pool, cloud):
        pool["placedTopology"] = topology


def placed_topology(pool: Mapping[str, Any], cloud: Cloud) -> str | None:
    """Return the topology that a pool's placement asks for, by itself or by the workload policy that it names."""
    placement = pool.get("placementPolicy") or {}
    if placement.get("tpuTopology"):
        return str(placement["tpuTopology"])
    name = placement.get("policyName")
    for policy in cloud.store.all_of("resourcePolicy") if name else ():
        if policy.short_name == short(name):
            found = at(policy.body, "workloadPolicy.acceleratorTopology")
            return str(found) if found else None
    return None


def tpu_hosts(machine_type: str, topology: str) -> int | None:
    """Return the number of machines of a type that form the TPU slice of a topology; None if they form none."""
    version = machines_today.tpu_hosts().get(machine_type)
    found = machines_today.tpu_slice(version, topology, machine_type) if version else None
    return found.hosts if found else None
