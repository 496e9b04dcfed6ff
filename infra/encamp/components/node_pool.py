"""A node pool as it is planned, whoever owns it: empty until pods wait for it, tainted so that nothing else lands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi_gcp as gcp

from encamp.duration import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pulumi

    from encamp.plan.model import NodePoolPlan


#: GKE's names of Kubernetes' taint effects.
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}


def node_pool(
    name: str,
    pool: NodePoolPlan,
    *,
    cluster: pulumi.Input[str],
    place: tuple[str, str],
    labels: Mapping[str, str],
    placement: gcp.container.NodePoolPlacementPolicyArgsDict | None = None,
    opts: pulumi.ResourceOptions,
) -> gcp.container.NodePool:
    """Declare a node pool.

    Args:
        name: its logical name.
        pool: as planned.
        cluster: name of its cluster.
        place: project and region of the cluster.
        labels: of its machines and disks, so that the bill can be added up by them.
        placement: how its machines stand to each other.
        opts: of the resource.
    """
    project, region = place
    profile: gcp.container.NodePoolNetworkConfigArgsDict | None = None
    if pool.network_profile is not None:
        profile = {"accelerator_network_profile": pool.network_profile}
    queued: gcp.container.NodePoolQueuedProvisioningArgsDict | None = None
    if pool.provisioning == "QUEUED":
        queued = {"enabled": True}
    return gcp.container.NodePool(
        name,
        name=pool.name,
        cluster=cluster,
        location=region,
        node_locations=list(pool.zones) or None,
        max_pods_per_node=pool.max_pods_per_node,
        project=project,
        autoscaling=_autoscaling(pool),
        # The autoscaler owns the count: it is no difference between the program and the cloud.
        ignore_node_count_changes=True,
        # GKE refuses repairs of machines that start when there is room.
        management={"auto_repair": not pool.waits_for_room, "auto_upgrade": True},
        node_config=_node_config(pool, labels),
        network_config=profile,
        queued_provisioning=queued,
        placement_policy=placement,
        opts=opts,
    )


def _autoscaling(pool: NodePoolPlan) -> gcp.container.NodePoolAutoscalingArgsDict:
    """From nothing to as many nodes as replicas. Hosts of one slice come all at once, which GKE counts by zone."""
    # Any zone that has the machine will do.
    if pool.multi_host:
        return {"min_node_count": pool.min_nodes, "max_node_count": pool.max_nodes, "location_policy": "ANY"}
    return {"total_min_node_count": pool.min_nodes, "total_max_node_count": pool.max_nodes, "location_policy": "ANY"}


def _node_config(pool: NodePoolPlan, labels: Mapping[str, str]) -> gcp.container.NodePoolNodeConfigArgsDict:
    key, value, effect = pool.taint
    config: gcp.container.NodePoolNodeConfigArgsDict = {
        "machine_type": pool.machine_type,
        "disk_type": pool.disk_type,
        "disk_size_gb": pool.disk_size_gb,
        "labels": dict(pool.labels),
        "resource_labels": labels,
        "taints": [{"key": key, "value": value, "effect": _EFFECTS[effect]}],
        "max_run_duration": str(Duration.of(pool.max_run_duration_seconds)),
        "oauth_scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "workload_metadata_config": {"mode": "GKE_METADATA"},
        "spot": pool.spot,
    }
    if pool.service_account is not None:
        config["service_account"] = pool.service_account
    if pool.disk_key is not None:
        config["boot_disk_kms_key"] = pool.disk_key
    if pool.image_streaming:
        config["gcfs_config"] = {"enabled": True}
    if pool.waits_for_room:
        config["flex_start"] = True
        config["reservation_affinity"] = {"consume_reservation_type": "NO_RESERVATION"}
    if pool.reservation is not None:
        config["reservation_affinity"] = {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [pool.reservation],
        }
    if pool.accelerator is not None and pool.tpu_topology is None:
        config["guest_accelerators"] = [
            {
                "type": pool.accelerator.type,
                "count": pool.accelerator.count,
                "gpu_driver_installation_config": {"gpu_driver_version": "DEFAULT"},
            }
        ]
    return config
