"""Clusters and node pools as the GKE API shows them, made of what the ``gcp`` provider was given.

The store keeps a body of two parts: ``inputs``, in the property names of the Pulumi provider, and ``facts``, what
came to be. Source: cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters and
.../projects.locations.clusters.nodePools. ``currentNodeCount`` and ``placedTopology`` (by a policy's
name) of a node pool are the sandbox's own additions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encamp.sandbox.cloud.store import CloudResource

_SAME_IN_CONFIG = (
    "machineType", "diskSizeGb", "diskType", "imageType", "labels", "taints", "tags", "metadata", "oauthScopes",
    "serviceAccount", "spot", "preemptible", "localSsdCount", "resourceLabels", "maxRunDuration", "flexStart",
    "reservationAffinity", "shieldedInstanceConfig", "bootDiskKmsKey", "minCpuPlatform",
)  # fmt: skip
_NODE_GROUP = "https://www.googleapis.com/compute/v1"


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, [], {})}


def node_config(config: dict[str, Any]) -> dict[str, Any]:
    """A NodeConfig."""
    shown = {key: config.get(key) for key in _SAME_IN_CONFIG}
    accelerators = [
        _given(
            {
                "acceleratorCount": str(item.get("count")),
                "acceleratorType": item.get("type"),
                "gpuPartitionSize": item.get("gpuPartitionSize"),
                "gpuDriverInstallationConfig": item.get("gpuDriverInstallationConfig"),
                "gpuSharingConfig": item.get("gpuSharingConfig"),
            }
        )
        for item in config.get("guestAccelerators") or ()
    ]
    workload = config.get("workloadMetadataConfig")
    shown |= {"accelerators": accelerators, "workloadMetadataConfig": workload, "gcfsConfig": config.get("gcfsConfig")}
    return _given(shown)


def node_pool(resource: CloudResource) -> dict[str, Any]:
    """A NodePool."""
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    autoscaling = inputs.get("autoscaling")
    shown = {
        "name": resource.short_name,
        "config": node_config(inputs.get("nodeConfig") or {}),
        "initialNodeCount": facts["initialNodeCount"],
        "locations": facts["locations"],
        "autoscaling": {"enabled": True, **autoscaling} if autoscaling else None,
        "management": inputs.get("management"),
        "maxPodsConstraint": {"maxPodsPerNode": str(inputs["maxPodsPerNode"])}
        if inputs.get("maxPodsPerNode")
        else None,
        "networkConfig": inputs.get("networkConfig"),
        "placementPolicy": inputs.get("placementPolicy"),
        "queuedProvisioning": inputs.get("queuedProvisioning"),
        "upgradeSettings": inputs.get("upgradeSettings"),
        "selfLink": self_link(resource.name),
        "version": facts["version"],
        "instanceGroupUrls": facts["instanceGroupUrls"],
        "status": "RUNNING",
        "etag": resource.etag,
    }
    own = {"placedTopology": facts.get("placedTopology")}
    return {**_given(shown), **_given(own), "currentNodeCount": facts["currentNodeCount"]}


def cluster(resource: CloudResource, pools: list[CloudResource]) -> dict[str, Any]:
    """A Cluster with its node pools."""
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    shown = {
        "name": resource.short_name,
        "description": inputs.get("description"),
        "location": facts["location"],
        "zone": facts["location"],
        "locations": facts["nodeLocations"],
        "network": str(inputs.get("network") or "default").rpartition("/")[2],
        "subnetwork": str(inputs.get("subnetwork") or "default").rpartition("/")[2],
        "endpoint": facts["endpoint"],
        "masterAuth": {"clusterCaCertificate": facts["clusterCaCertificate"]},
        **named_endpoint(inputs, int(facts["endpoint"].rpartition(":")[2])),
        "workloadIdentityConfig": inputs.get("workloadIdentityConfig"),
        "resourceLabels": resource.labels,
        "initialClusterVersion": facts["masterVersion"],
        "currentMasterVersion": facts["masterVersion"],
        "currentNodeVersion": facts["masterVersion"],
        "createTime": resource.created,
        "status": "RUNNING",
        "selfLink": self_link(resource.name),
        "etag": resource.etag,
        "nodePools": [node_pool(pool) for pool in pools],
    }
    nodes = sum(pool.body["facts"]["currentNodeCount"] for pool in pools)
    return {**_given(shown), "currentNodeCount": nodes}


def named_endpoint(inputs: dict[str, Any], port: int) -> dict[str, Any]:
    """Give the DNS endpoint of a cluster, where it was asked for one: the name of this machine.

    Clients are told of no certificate authority, as Google's names need none; ``SSL_CERT_FILE`` names the sandbox's.
    """
    asked = (inputs.get("controlPlaneEndpointsConfig") or {}).get("dnsEndpointConfig")
    if not asked:
        return {}
    name = {"allowExternalTraffic": False, **asked, "endpoint": f"localhost:{port}"}
    return {"controlPlaneEndpointsConfig": {**inputs["controlPlaneEndpointsConfig"], "dnsEndpointConfig": name}}


def self_link(name: str) -> str:
    """The URL by which GKE names a resource."""
    return f"https://container.googleapis.com/v1/{name}"


def instance_groups(project: str, cluster_name: str, pool: str, zones: list[str], suffix: str) -> list[str]:
    """The managed instance groups of a pool, one for each zone."""
    return [
        f"{_NODE_GROUP}/projects/{project}/zones/{zone}/instanceGroupManagers/gke-{cluster_name}-{pool}-{suffix}-grp"
        for zone in zones
    ]
