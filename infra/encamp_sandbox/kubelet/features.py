"""Features of a cluster and a node pool that their nodes have, read from the container API's JSON.

A cluster that says nothing of a feature has what encamp's own clusters have. Source of the fields:
cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters. Belief: gke-system-pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.machines.rdma import driver_label
from encamp.plan.machines.system_pods import NodeFeature

if TYPE_CHECKING:
    from collections.abc import Mapping


def cluster_features(cluster: Mapping[str, Any]) -> frozenset[NodeFeature]:
    """Return features that every node of a cluster has."""
    network = cluster.get("networkConfig")
    v2 = network is None or network.get("datapathProvider") == "ADVANCED_DATAPATH"
    monitoring = cluster.get("monitoringConfig")
    metrics = _components(monitoring)
    found = {
        NodeFeature.DATAPLANE_V2: v2,
        NodeFeature.DATAPLANE_V1: not v2,
        NodeFeature.LOGGING: "SYSTEM_COMPONENTS" in _components(cluster.get("loggingConfig")),
        NodeFeature.MONITORING: "SYSTEM_COMPONENTS" in metrics,
        NodeFeature.DCGM: "DCGM" in metrics,
        NodeFeature.MANAGED_PROMETHEUS: _enabled(monitoring, "managedPrometheusConfig"),
        NodeFeature.PERSISTENT_DISKS: _enabled(cluster.get("addonsConfig"), "gcePersistentDiskCsiDriverConfig"),
        NodeFeature.GCS_FUSE: _enabled(cluster.get("addonsConfig"), "gcsFuseCsiDriverConfig"),
        NodeFeature.DNS_CACHE: _enabled(cluster.get("addonsConfig") or {}, "dnsCacheConfig"),
        NodeFeature.WORKLOAD_IDENTITY: cluster.get("workloadIdentityConfig") is not None,
    }
    return frozenset(feature for feature, on in found.items() if on)


def pool_features(config: Mapping[str, Any]) -> frozenset[NodeFeature]:
    """Return features that a node pool's own configuration adds."""
    driver = (config.get("labels") or {}).get(driver_label()) == "true"
    metadata = (config.get("workloadMetadataConfig") or {}).get("mode") == "GKE_METADATA"
    found = {NodeFeature.NETWORK_DRIVER: driver, NodeFeature.WORKLOAD_IDENTITY: metadata}
    return frozenset(feature for feature, on in found.items() if on)


def streams_images(cluster: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a pool's nodes stream their images: by the pool's word, else by the cluster's."""
    defaults = (cluster.get("nodePoolDefaults") or {}).get("nodeConfigDefaults") or {}
    chosen = config.get("gcfsConfig") or defaults.get("gcfsConfig") or {}
    return bool(chosen.get("enabled"))


def _components(config: Mapping[str, Any] | None) -> tuple[str, ...]:
    if config is None:
        return ("SYSTEM_COMPONENTS", "DCGM")
    return tuple((config.get("componentConfig") or {}).get("enableComponents") or ())


def _enabled(config: Mapping[str, Any] | None, name: str) -> bool:
    return config is None or bool((config.get(name) or {}).get("enabled"))
