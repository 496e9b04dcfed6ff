"""GKE clusters and node pools.

There is one real control plane in a sandbox, so there is one cluster at most; a second one is refused as if the
quota were used up. Deleting it takes it from the cloud's lists; the control plane itself runs on.
"""

from __future__ import annotations

import base64
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud import container_shapes as shapes
from encamp.sandbox.cloud.gcp.cluster_rules import CLUSTER_RULES
from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT, labels_rule
from encamp.sandbox.cloud.gcp.kms_types import key_use_rule
from encamp.sandbox.cloud.gcp.machine_rules import MACHINE_RULES, placed_topology
from encamp.sandbox.cloud.gcp.model import ResourceType, Rule, pattern_rule, short
from encamp.sandbox.cloud.gcp.network_types import network_name, subnetwork_name
from encamp.sandbox.cloud.gcp.pool_rules import POOL_RULES
from encamp.sandbox.cloud.gcp.stored import StoredBackend

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Made, Problem
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_VERSION = "1.36.3-gke.1000000"
_ZONES = ("a", "b", "c")
_CLUSTERS = "cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters"
_NAME_SOURCE = _CLUSTERS + "#Cluster.FIELDS.name"
_NAME = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
_NAME_PROBLEM = "must be at most 40 lowercase letters, digits and hyphens, begin with a letter and end with no hyphen"
_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_LOCATION = r"[a-z]+-[a-z]+\d+(-[a-z])?"
_DEFAULT_POOL = "default-pool"


def _zones(location: str, given: list[str] | None) -> list[str]:
    """The zones of a location: those given, the zone itself, or three of a region."""
    if given:
        return sorted(given)
    return [location] if _ZONE.fullmatch(location) else [f"{location}-{letter}" for letter in _ZONES]


def _cluster_name(inputs: Properties, context: Context) -> str:
    return f"projects/{context.project}/locations/{context.location_of(inputs)}/clusters/{inputs['name']}"


def _cluster_facts(inputs: Properties, context: Context) -> dict[str, Any]:
    location = context.location_of(inputs)
    return {
        "location": location,
        "nodeLocations": _zones(location, inputs.get("nodeLocations")),
        "masterVersion": _VERSION,
        "endpoint": f"127.0.0.1:{context.layout.ports.apiserver}",
        "clusterCaCertificate": base64.b64encode((context.layout.pki / "ca.crt").read_bytes()).decode(),
        "labelFingerprint": secrets.token_hex(4),
    }


def _cluster_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    network = network_name(inputs.get("network") or "default", context)
    client = {"clientCertificate": "", "clientKey": "", "clientCertificateConfig": {"issueClientCertificate": False}}
    return {
        **shapes.named_endpoint(inputs, context.layout.ports.apiserver),
        "location": facts["location"],
        "nodeLocations": facts["nodeLocations"],
        # The present port, not the one of the cluster's creation: a sandbox may move to others.
        "endpoint": f"127.0.0.1:{context.layout.ports.apiserver}",
        "masterAuth": {**client, "clusterCaCertificate": facts["clusterCaCertificate"]},
        "masterVersion": facts["masterVersion"],
        "nodeVersion": facts["masterVersion"],
        "selfLink": shapes.self_link(resource.name),
        "labelFingerprint": facts["labelFingerprint"],
        "network": network,
        "operation": "",
        "clusterIpv4Cidr": inputs.get("clusterIpv4Cidr") or "10.0.0.0/14",
        "servicesIpv4Cidr": "10.4.0.0/20",
        "tpuIpv4CidrBlock": "",
    }


def _cluster_parents(inputs: Properties, context: Context) -> list[str]:
    parents = [network_name(inputs["network"], context)] if inputs.get("network") else []
    if inputs.get("subnetwork"):
        location = context.location_of(inputs)
        region = location.rpartition("-")[0] if _ZONE.fullmatch(location) else location
        parents.append(subnetwork_name(inputs["subnetwork"], region, context))
    return parents


def _default_pool(cluster: CloudResource, context: Context) -> None:
    """GKE makes a pool of its own unless the provider is told to remove it."""
    inputs = cluster.body["inputs"]
    if inputs.get("removeDefaultNodePool") or not inputs.get("initialNodeCount"):
        return
    pool = {
        "name": _DEFAULT_POOL,
        "cluster": cluster.name,
        "initialNodeCount": inputs["initialNodeCount"],
        "nodeConfig": inputs.get("nodeConfig") or {},
        "nodeLocations": cluster.body["facts"]["nodeLocations"],
    }
    body = {"inputs": pool, "facts": _pool_facts(pool, context)}
    context.cloud.store.create("nodePool", f"{cluster.name}/nodePools/{_DEFAULT_POOL}", body)


def _only_one(inputs: Properties, context: Context) -> Problem:
    others = [item for item in context.cloud.store.all_of("cluster") if item.name != _cluster_name(inputs, context)]
    if not others:
        return None
    return (
        "Insufficient quota to satisfy the request: the sandbox has one control plane, "
        f"and the cluster {others[0].short_name} has it."
    )


def _node_count(inputs: Properties, _: Context) -> Problem:
    if inputs.get("initialNodeCount") or inputs.get("nodePools"):
        return None
    return "Cluster.initial_node_count must be greater than zero."


def _autopilot(inputs: Properties, _: Context) -> Problem:
    if inputs.get("enableAutopilot"):
        return "the sandbox has Standard clusters only: enable_autopilot cannot be set"
    return None


def _workload_pool(inputs: Properties, context: Context) -> Problem:
    pool = (inputs.get("workloadIdentityConfig") or {}).get("workloadPool")
    wanted = f"{context.project}.svc.id.goog"
    if pool in (None, "", wanted):
        return None
    return f"Currently, the only supported workload pool is {wanted}, got {pool}."


def _secondary_ranges(inputs: Properties, context: Context) -> Problem:
    policy, subnet = inputs.get("ipAllocationPolicy") or {}, inputs.get("subnetwork")
    wanted = [policy[key] for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName") if policy.get(key)]
    if not wanted or not subnet:
        return None
    for item in context.cloud.store.all_of("subnetwork"):
        if item.short_name == short(subnet):
            known = {part.get("rangeName") for part in item.body["inputs"].get("secondaryIpRanges") or ()}
            missing = [name for name in wanted if name not in known]
            return f'secondary range "{missing[0]}" does not exist in network' if missing else None
    return None


CLUSTER: Final = ResourceType(
    "gcp:container/cluster:Cluster",
    wheel=("pulumi_gcp.container", "Cluster"),
    backend=StoredBackend(
        kind="cluster",
        full_name=_cluster_name,
        facts=_cluster_facts,
        outputs=_cluster_outputs,
        parents=_cluster_parents,
        labels="resourceLabels",
        after=_default_pool,
        defaults={
            "deletionProtection": True,
            "enableKubernetesAlpha": False,
            "enableLegacyAbac": False,
            "enableShieldedNodes": True,
            "enableTpu": False,
            "networkingMode": "VPC_NATIVE",
            "defaultMaxPodsPerNode": 110,
            "loggingService": "logging.googleapis.com/kubernetes",
            "monitoringService": "monitoring.googleapis.com/kubernetes",
        },
    ),
    required=(),
    immutable=(
        "name", "project", "location", "network", "subnetwork", "ipAllocationPolicy", "initialNodeCount",
        "privateClusterConfig.masterIpv4CidrBlock", "privateClusterConfig.enablePrivateNodes", "enableAutopilot",
        "networkingMode", "clusterIpv4Cidr", "datapathProvider", "description", "enableKubernetesAlpha",
        "defaultMaxPodsPerNode", "nodeConfig", "enableTpu", "confidentialNodes", "masterAuth", "enableMultiNetworking",
    ),
    computed=(
        "endpoint", "masterAuth", "masterVersion", "selfLink", "labelFingerprint", "servicesIpv4Cidr", "operation",
        "effectiveLabels", "pulumiLabels", "nodeLocations", "nodeVersion",
        "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint",
    ),
    rules=(
        PROJECT,
        DELETION_POLICY,
        labels_rule("resourceLabels"),
        pattern_rule("name", "name", _NAME, _NAME_SOURCE, _NAME_PROBLEM),
        pattern_rule("location", "location", _LOCATION, _CLUSTERS, "is no region and no zone"),
        Rule("Autopilot", "docs/decisions/0021-sandbox-cloud.md", ("enableAutopilot",), _autopilot),
        Rule("node count", _CLUSTERS, ("initialNodeCount", "nodePools"), _node_count, api=True),
        Rule(
            "workload pool", "cloud.google.com/kubernetes-engine/docs/how-to/workload-identity",
            ("workloadIdentityConfig",),
            _workload_pool, api=True,
        ),
        Rule(
            "secondary ranges", "cloud.google.com/kubernetes-engine/docs/how-to/alias-ips",
            ("ipAllocationPolicy", "subnetwork"), _secondary_ranges, api=True,
        ),
        Rule(
            "one control plane", "docs/decisions/0021-sandbox-cloud.md", ("name", "location"), _only_one,
            api=True, code=403,
            reason="quotaExceeded",
        ),
        *CLUSTER_RULES,
        key_use_rule(
            "container", "databaseEncryption", lambda inputs: (inputs.get("databaseEncryption") or {}).get("keyName"),
            "cloud.google.com/kubernetes-engine/docs/how-to/encrypting-secrets#grant_permission_to_use_the_key",
        ),
    ),
    autoname="name",
    labels="resourceLabels",
)  # fmt: skip


def _cluster_of(inputs: Properties, context: Context) -> str:
    given = str(inputs["cluster"])
    if "/" in given:
        return given[given.index("projects/") :] if "projects/" in given else given
    return f"projects/{context.project}/locations/{context.location_of(inputs)}/clusters/{given}"


def _pool_facts(inputs: Properties, context: Context) -> dict[str, Any]:
    cluster_name = _cluster_of(inputs, context)
    cluster = context.cloud.store.find(cluster_name)
    location = cluster_name.split("/")[3]
    zones = inputs.get("nodeLocations") or (cluster.body["facts"]["nodeLocations"] if cluster else None)
    scaling = inputs.get("autoscaling") or {}
    count = inputs.get("initialNodeCount") or inputs.get("nodeCount") or scaling.get("minNodeCount") or 0
    locations = _zones(location, zones)
    groups = shapes.instance_groups(
        context.project, short(cluster_name), inputs["name"], locations, secrets.token_hex(4)
    )
    return {
        "location": location,
        "locations": locations,
        "initialNodeCount": count,
        "currentNodeCount": max(count * len(locations), scaling.get("totalMinNodeCount") or 0),
        "version": inputs.get("version") or _VERSION,
        "instanceGroupUrls": groups,
        "placedTopology": placed_topology(inputs, context),
    }


def _pool_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    groups = facts["instanceGroupUrls"]
    return {
        "cluster": short(inputs["cluster"]),
        "location": facts["location"],
        "nodeLocations": facts["locations"],
        "initialNodeCount": facts["initialNodeCount"],
        "nodeCount": inputs["nodeCount"] if inputs.get("nodeCount") is not None else facts["initialNodeCount"],
        "version": facts["version"],
        "instanceGroupUrls": groups,
        "managedInstanceGroupUrls": [url.replace("/instanceGroupManagers/", "/instanceGroups/") for url in groups],
        "nodeConfig": {**_NODE_DEFAULTS, **(inputs.get("nodeConfig") or {})},
        "namePrefix": "",
        "operation": "",
        "project": context.project,
    }


_NODE_DEFAULTS = {
    "machineType": "e2-medium",
    "diskSizeGb": 100,
    "diskType": "pd-balanced",
    "imageType": "COS_CONTAINERD",
    "serviceAccount": "default",
    "loggingVariant": "DEFAULT",
}


class _PoolBackend(StoredBackend):
    """Node pools: a change of the fixed size is one of the number of nodes."""

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Change it in place."""
        name = self.full_name(olds, context)
        with context.cloud.database.transaction():
            made = await super().update(resource_id, olds, news, context)
            count = news.get("nodeCount")
            if count is not None and count != olds.get("nodeCount"):
                facts = context.cloud.store.get(name).body["facts"]
                facts["currentNodeCount"] = count * len(facts["locations"])
                context.cloud.store.merge(name, {"facts": facts})
        return made


NODE_POOL: Final = ResourceType(
    "gcp:container/nodePool:NodePool",
    wheel=("pulumi_gcp.container", "NodePool"),
    backend=_PoolBackend(
        kind="nodePool",
        full_name=lambda inputs, context: f"{_cluster_of(inputs, context)}/nodePools/{inputs['name']}",
        facts=_pool_facts,
        outputs=_pool_outputs,
        parents=lambda inputs, context: [_cluster_of(inputs, context)],
        defaults={"maxPodsPerNode": 110, "management": {"autoRepair": True, "autoUpgrade": True}},
    ),
    required=("cluster",),
    immutable=(
        "name", "namePrefix", "project", "cluster", "location", "initialNodeCount", "maxPodsPerNode", "placementPolicy",
        "networkConfig", "queuedProvisioning", "nodeConfig",
    ),
    mutable=(
        "nodeConfig.machineType", "nodeConfig.diskSizeGb", "nodeConfig.diskType", "nodeConfig.imageType",
        "nodeConfig.labels", "nodeConfig.taints", "nodeConfig.tags", "nodeConfig.resourceLabels",
        "nodeConfig.workloadMetadataConfig", "nodeConfig.gcfsConfig", "nodeConfig.gvnic", "nodeConfig.kubeletConfig",
        "nodeConfig.linuxNodeConfig", "nodeConfig.loggingVariant", "nodeConfig.resourceManagerTags",
        "nodeConfig.containerdConfig", "networkConfig.enablePrivateNodes",
    ),
    computed=("instanceGroupUrls", "managedInstanceGroupUrls", "version", "operation", "nodeLocations"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        pattern_rule("name", "name", _NAME, _NAME_SOURCE, _NAME_PROBLEM),
        *POOL_RULES,
        key_use_rule(
            "compute", "nodeConfig", lambda inputs: (inputs.get("nodeConfig") or {}).get("bootDiskKmsKey"),
            "cloud.google.com/kubernetes-engine/docs/how-to/using-cmek#grant_permission",
        ),
        *MACHINE_RULES,
    ),
    autoname="name",
)  # fmt: skip
