"""Fields of a cluster that GKE fills in: zones, versions, networking, add-ons, endpoints, defaults of its pools.

Belief ``gke-fills-clusters``. Source:
cloud.google.com/kubernetes-engine/docs/reference/rest/v1beta1/projects.locations.clusters.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.values import at, default, short
from encamp_sandbox.cloud.services.container.zones import default_zones, region_of

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change

VERSION: Final = "1.36.3-gke.1000000"
_PODS_CIDR = "10.0.0.0/14"
_SERVICES_CIDR = "10.4.0.0/20"
_CONTROL_PLANE_ADDRESS = "172.16.0.2"


def fill_cluster(change: Change) -> None:
    """Fill in a new cluster."""
    cluster = change.body
    for key in ("etag", "location", "zone"):
        cluster.pop(key, None)
    cluster["id"] = secrets.token_hex(32)
    _fill_versions(cluster)
    _fill_networks(change)
    _fill_endpoints(change)
    default(
        cluster,
        {
            "locations": default_zones(change.location),
            "labelFingerprint": secrets.token_hex(4),
            "loggingService": "logging.googleapis.com/kubernetes",
            "monitoringService": "monitoring.googleapis.com/kubernetes",
            "masterAuth": {},
            "legacyAbac": {},
            "autopilot": {},
            "addonsConfig.httpLoadBalancing": {},
            "addonsConfig.horizontalPodAutoscaling": {},
            "addonsConfig.networkPolicyConfig": {"disabled": True},
            "addonsConfig.gcePersistentDiskCsiDriverConfig": {"enabled": True},
            "addonsConfig.dnsCacheConfig": {"enabled": True},
            "autoscaling.autoscalingProfile": "BALANCED",
            "databaseEncryption": {"state": "DECRYPTED"},
            "shieldedNodes": {"enabled": True},
            "defaultMaxPodsConstraint.maxPodsPerNode": "110",
            "notificationConfig.pubsub": {},
            "securityPostureConfig": {"mode": "BASIC", "vulnerabilityMode": "VULNERABILITY_DISABLED"},
            "enterpriseConfig": {"clusterTier": "STANDARD"},
            "loggingConfig.componentConfig.enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"],
            "monitoringConfig.componentConfig.enableComponents": ["SYSTEM_COMPONENTS"],
            "monitoringConfig.managedPrometheusConfig": {"enabled": True},
            "monitoringConfig.advancedDatapathObservabilityConfig": {},
            "maintenancePolicy": {},
            "nodePoolDefaults.nodeConfigDefaults.loggingConfig.variantConfig.variant": "DEFAULT",
            "nodePoolDefaults.nodeConfigDefaults.nodeKubeletConfig.insecureKubeletReadonlyPortEnabled": False,
            "nodePoolAutoConfig.nodeKubeletConfig.insecureKubeletReadonlyPortEnabled": False,
            "rbacBindingConfig": {
                "enableInsecureBindingSystemAuthenticated": True,
                "enableInsecureBindingSystemUnauthenticated": True,
            },
        },
    )
    cluster["maintenancePolicy"]["resourceVersion"] = secrets.token_hex(4)
    _fill_autoscaling(cluster)


def _fill_versions(cluster: dict[str, Any]) -> None:
    version = VERSION if cluster.get("initialClusterVersion") in (None, "", "-", "latest") else None
    current = version or str(cluster["initialClusterVersion"])
    cluster |= {"initialClusterVersion": current, "currentMasterVersion": current, "currentNodeVersion": current}
    default(cluster, {"releaseChannel": {"channel": "REGULAR"}})


def _fill_networks(change: Change) -> None:
    cluster, region = change.body, region_of(change.location)
    network, subnetwork = short(cluster.get("network") or "default"), short(cluster.get("subnetwork") or "default")
    policy: dict[str, Any] = cluster.setdefault("ipAllocationPolicy", {})
    ranges = _secondary_ranges(change, subnetwork)
    of_pods, of_services = (str(policy.get(f"{of}SecondaryRangeName")) for of in ("cluster", "services"))
    pods = ranges.get(of_pods) or policy.get("clusterIpv4CidrBlock") or _PODS_CIDR
    services = ranges.get(of_services) or policy.get("servicesIpv4CidrBlock")
    cluster |= {"network": network, "subnetwork": subnetwork, "clusterIpv4Cidr": pods}
    cluster["servicesIpv4Cidr"] = services or _SERVICES_CIDR
    if policy.get("useIpAliases") is False or policy.get("useRoutes"):
        # Belief: gke-vpc-native-unless-told-otherwise.
        cluster["ipAllocationPolicy"] = {"useRoutes": True, "stackType": "IPV4"}
    else:
        _fill_aliases(cluster, pods, f"gke-{change.name.rpartition('/')[2]}-pods-{secrets.token_hex(4)}")
    default(
        cluster,
        {
            "networkConfig.defaultSnatStatus": {},
            "networkConfig.serviceExternalIpsConfig": {},
            "networkConfig.datapathProvider": "LEGACY_DATAPATH",
        },
    )
    cluster["networkConfig"] |= {
        "network": f"projects/{change.project}/global/networks/{network}",
        "subnetwork": f"projects/{change.project}/regions/{region}/subnetworks/{subnetwork}",
    }


def _fill_aliases(cluster: dict[str, Any], pods: str, made: str) -> None:
    """Fill in the ranges of a VPC-native cluster; ``made`` is the name of the one that GKE makes for its pods."""
    policy: dict[str, Any] = {
        "useIpAliases": True,
        "clusterSecondaryRangeName": made,
        "clusterIpv4Cidr": pods,
        "clusterIpv4CidrBlock": pods,
        "servicesIpv4Cidr": cluster["servicesIpv4Cidr"],
        "servicesIpv4CidrBlock": cluster["servicesIpv4Cidr"],
        "stackType": "IPV4",
        "podCidrOverprovisionConfig": {},
    }
    cluster["ipAllocationPolicy"] = policy | cluster["ipAllocationPolicy"]


def _secondary_ranges(change: Change, subnetwork: str) -> dict[str, str]:
    for found in change.cloud.store.all_of("subnetwork"):
        if found.short_name == subnetwork:
            return {one["rangeName"]: one["ipCidrRange"] for one in found.body.get("secondaryIpRanges") or ()}
    return {}


def _fill_endpoints(change: Change) -> None:
    cluster = change.body
    private = cluster.pop("privateClusterConfig", None) or {}
    listed = cluster.pop("masterAuthorizedNetworksConfig", None)
    if private.get("enablePrivateNodes") is not None:
        default(cluster, {"networkConfig.defaultEnablePrivateNodes": bool(private["enablePrivateNodes"])})
    block = private.get("masterIpv4CidrBlock")
    endpoints = "controlPlaneEndpointsConfig"
    default(
        cluster,
        {
            f"{endpoints}.dnsEndpointConfig.allowExternalTraffic": False,
            f"{endpoints}.ipEndpointsConfig.enabled": True,
            f"{endpoints}.ipEndpointsConfig.enablePublicEndpoint": not private.get("enablePrivateEndpoint"),
            f"{endpoints}.ipEndpointsConfig.authorizedNetworksConfig": listed or {},
            f"{endpoints}.ipEndpointsConfig.globalAccess": False,
        },
    )
    address = str(block).rpartition(".")[0] + ".2" if block else _CONTROL_PLANE_ADDRESS
    cluster[endpoints]["ipEndpointsConfig"]["privateEndpoint"] = address
    if block:
        cluster["privateClusterConfig"] = {"masterIpv4CidrBlock": block}


def _fill_autoscaling(cluster: dict[str, Any]) -> None:
    if at(cluster, "autoscaling.enableNodeAutoprovisioning"):
        default(
            cluster,
            {
                "autoscaling.autoprovisioningNodePoolDefaults.imageType": "COS_CONTAINERD",
                "autoscaling.autoprovisioningNodePoolDefaults.upgradeSettings": {"maxSurge": 1, "strategy": "SURGE"},
                "autoscaling.autoprovisioningNodePoolDefaults.management": {"autoRepair": True, "autoUpgrade": True},
            },
        )
