"""Clusters: made by the collection; an update sets ``desired…`` fields, and some fields have methods of their own.

Source: cloud.google.com/kubernetes-engine/docs/reference/rest/v1beta1/projects.locations.clusters.
"""

from __future__ import annotations

import base64
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.collection import Body, Collection
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Change, judge
from encamp_sandbox.cloud.rest.values import at, default, merged, put, short
from encamp_sandbox.cloud.services.container.cluster_fill import fill_cluster
from encamp_sandbox.cloud.services.container.cluster_rules import CLUSTER_RULES
from encamp_sandbox.cloud.services.container.node_pools import NODE_POOLS
from encamp_sandbox.cloud.services.container.style import Container, change, check_idle
from encamp_sandbox.cloud.services.container.zones import region_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.store import CloudResource

_DEFAULT_POOL = "default-pool"
#: Fields of ClusterUpdate whose names say another path than their own.
_DESIRED: Final = {
    "desiredClusterAutoscaling": "autoscaling",
    "desiredMasterVersion": "currentMasterVersion",
    "desiredNodeVersion": "currentNodeVersion",
    "desiredGatewayApiConfig": "networkConfig.gatewayApiConfig",
    "desiredDatapathProvider": "networkConfig.datapathProvider",
    "desiredDnsConfig": "networkConfig.dnsConfig",
    "desiredServiceExternalIpsConfig": "networkConfig.serviceExternalIpsConfig",
    "desiredDefaultSnatStatus": "networkConfig.defaultSnatStatus",
    "desiredDefaultEnablePrivateNodes": "networkConfig.defaultEnablePrivateNodes",
    "desiredIntraNodeVisibilityConfig": "networkConfig.intraNodeVisibilityConfig",
    "desiredL4ilbSubsettingConfig": "networkConfig.l4ilbSubsettingConfig",
    "desiredMasterAuthorizedNetworksConfig": "controlPlaneEndpointsConfig.ipEndpointsConfig.authorizedNetworksConfig",
    "desiredGcfsConfig": "nodePoolDefaults.nodeConfigDefaults.gcfsConfig",
    "desiredNodePoolLoggingConfig": "nodePoolDefaults.nodeConfigDefaults.loggingConfig",
    "desiredNodeKubeletConfig": "nodePoolDefaults.nodeConfigDefaults.nodeKubeletConfig",
    "desiredContainerdConfig": "nodePoolDefaults.nodeConfigDefaults.containerdConfig",
}
#: Objects of which an update holds only what changes.
_PARTIAL = ("desiredAddonsConfig", "desiredControlPlaneEndpointsConfig", "desiredMonitoringConfig")


def _identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
    del ask
    cluster = body.get("cluster")
    if not isinstance(cluster, dict) or not cluster.get("name"):
        raise GoogleError(400, "Cluster.name is required.", reason="required")
    return cluster["name"], {key: value for key, value in cluster.items() if key != "name"}


def _needs(change: Change) -> Iterable[str]:
    """Yield the network and the subnetwork, if they are given and of this project.

    A shared VPC is another project's.
    """
    region = region_of(change.location)
    given = change.given if change.before is None and change.given is not None else {}
    for key, path in (("network", "global/networks"), ("subnetwork", f"regions/{region}/subnetworks")):
        reference = str(given.get(key) or "")
        if reference and (f"projects/{change.project}/" in reference or "projects/" not in reference):
            yield f"projects/{change.project}/{path}/{short(reference)}"


def _default_pool(cluster: CloudResource, cloud: Cloud) -> None:
    """Make the pools that were given with the cluster, or the one that GKE makes by itself."""
    body = deepcopy(cluster.body)
    given = body.pop("nodePools", None)
    config, count = body.pop("nodeConfig", None), body.get("initialNodeCount", 0)
    cloud.store.update(cluster.name, body)
    for pool in given or [{"name": _DEFAULT_POOL, "config": config or {}, "initialNodeCount": count}]:
        name = pool.pop("name")
        change = Change(cloud, f"{cluster.name}/nodePools/{name}", pool, given=pool)
        judge(NODE_POOLS.rules, change)
        NODE_POOLS.fill(change)
        cloud.store.create("nodePool", change.name, change.body)


def _show(cluster: CloudResource, cloud: Cloud) -> Body:
    """Return pools, counts, endpoint and certificate: the present ones, for a sandbox may move to other ports."""
    pools = [NODE_POOLS.shown(pool, cloud) for pool in cloud.store.all_of("nodePool", cluster.name)]
    location = cluster.name.split("/")[3]
    endpoint, certificate = cloud.control_plane()
    # No client certificate is issued, as on GKE unless one is asked for.
    auth = {**(cluster.body.get("masterAuth") or {}), "clusterCaCertificate": base64.b64encode(certificate).decode()}
    auth.pop("clientCertificateConfig", None)
    shown: Body = {
        "location": location,
        "zone": location,
        "createTime": cluster.created,
        "endpoint": endpoint,
        "masterAuth": auth,
        "currentNodeCount": sum(int(pool.get("currentNodeCount") or 0) for pool in pools),
    }
    if pools:
        shown |= {"nodePools": pools, "nodeConfig": pools[0]["config"]}
    ip = deepcopy(at(cluster.body, "controlPlaneEndpointsConfig") or {})
    put(ip, "ipEndpointsConfig.publicEndpoint", endpoint)
    # The name of this machine: the certificate of its API server holds for it.
    put(ip, "dnsEndpointConfig.endpoint", f"localhost:{endpoint.rpartition(':')[2]}")
    private: Body = {
        **(cluster.body.get("privateClusterConfig") or {}),
        "enablePrivateNodes": bool(at(cluster.body, "networkConfig.defaultEnablePrivateNodes")),
        "enablePrivateEndpoint": not at(ip, "ipEndpointsConfig.enablePublicEndpoint"),
        "privateEndpoint": at(ip, "ipEndpointsConfig.privateEndpoint"),
        "publicEndpoint": endpoint,
    }
    listed = at(ip, "ipEndpointsConfig.authorizedNetworksConfig") or {}
    return {
        **shown,
        "controlPlaneEndpointsConfig": ip,
        "privateClusterConfig": private,
        "masterAuthorizedNetworksConfig": listed,
    }


def _delete(cluster: CloudResource, cloud: Cloud) -> None:
    check_idle(cluster.name, cloud)
    cloud.store.delete(cluster.name)


CLUSTERS: Final = Collection(
    kind="cluster",
    path="projects/{project}/locations/{location}/clusters",
    style=Container("CLUSTER"),
    permission="container.clusters",
    permissions={"list": "container.clusters.get"},
    identify=_identify,
    rules=CLUSTER_RULES,
    fill=fill_cluster,
    show=_show,
    needs=_needs,
    created=_default_pool,
    deleted=_delete,
)


async def _update(ask: Ask) -> Body:
    """Return the cluster after UpdateCluster: each ``desired…`` field replaces what it names."""
    ask.require("container.clusters.update", ask.name)
    given = (await ask.call.json()).get("update") or {}
    present = CLUSTERS.find(ask.name, ask.cloud)
    CLUSTERS.style.check_fresh(present, {"etag": given.get("etag")}, {})
    body = deepcopy(present.body)
    for key, value in given.items():
        if not key.startswith("desired"):
            continue
        path = _DESIRED.get(key) or key[7].lower() + key[8:]
        before = at(body, path)
        partial_update = key in _PARTIAL and isinstance(before, dict)
        put(body, path, merged(before, value) if partial_update else value)
    default(body, {"loggingConfig": {}, "autoscaling.autoscalingProfile": "BALANCED"})
    return change(CLUSTERS, ask, body, "UPDATE_CLUSTER")


async def _set_field(ask: Ask, *, field: str, verb: str) -> Body:
    """Replace one field of a cluster."""
    ask.require("container.clusters.update", ask.name)
    given = await ask.call.json()
    present = CLUSTERS.find(ask.name, ask.cloud)
    if field not in given:
        raise GoogleError(400, f"{field} is required.", reason="required")
    if field == "resourceLabels" and given.get("labelFingerprint") not in (None, "", present.body["labelFingerprint"]):
        message = "Labels could not be set due to fingerprint mismatch."
        raise GoogleError(412, message, reason="conditionNotMet", belief="gke-labels-have-fingerprints")
    body = {**present.body, field: given[field]}
    if field == "resourceLabels":
        body["labelFingerprint"] = present.etag[:8]
    if field == "maintenancePolicy":
        body[field] = {**given[field], "resourceVersion": present.etag[:8]}
    return change(CLUSTERS, ask, body, verb)


def _method(verb: str, handler: Callable[[Ask], Any]) -> Route:
    one = "projects/{project}/locations/{location}/clusters/{cluster}"
    return Route(one, ("POST",), handler, verb=verb, operation="update")


CLUSTER_METHODS: Final = (
    Route("projects/{project}/locations/{location}/clusters/{cluster}", ("PUT",), _update, operation="update"),
    *(
        _method(f"set{field[0].upper()}{field[1:]}", partial(_set_field, field=field, verb=verb))
        for field, verb in (
            ("resourceLabels", "UPDATE_CLUSTER"),
            ("maintenancePolicy", "SET_MAINTENANCE_POLICY"),
            ("networkPolicy", "SET_NETWORK_POLICY"),
            ("locations", "UPDATE_CLUSTER"),
        )
    ),
)
