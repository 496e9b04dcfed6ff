"""A job's node pools: one a machine shape, empty until replicas are pending, tainted so that nothing else lands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import kept_deadline, marks
from encamp.components.server_filled import SERVER_FILLED
from encamp.plan.declared import pool_child_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, NodePoolPlan


#: GKE's names of Kubernetes' taint effects.
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}


class JobNodePools(pulumi.ComponentResource):
    """Every pool of the job.

    Attributes:
        pools: the pools in the plan's order.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        cluster: pulumi.Input[str],
        labels: Mapping[str, str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobNodePools", name, {}, opts)
        self.pools = [self._pool(plan, pool, cluster, labels) for pool in plan.node_pools]
        self.register_outputs({})

    def _pool(
        self, plan: JobPlan, pool: NodePoolPlan, cluster: pulumi.Input[str], labels: Mapping[str, str]
    ) -> gcp.container.NodePool:
        child = pool_child_name(plan, pool)
        profile: gcp.container.NodePoolNetworkConfigArgsDict | None = None
        if pool.network_profile is not None:
            profile = {"accelerator_network_profile": pool.network_profile}
        queued: gcp.container.NodePoolQueuedProvisioningArgsDict | None = None
        if pool.provisioning == "QUEUED":
            queued = {"enabled": True}
        return gcp.container.NodePool(
            child,
            name=pool.name,
            cluster=cluster,
            location=plan.cluster_region,
            node_locations=list(pool.zones) or None,
            max_pods_per_node=pool.max_pods_per_node,
            project=plan.project,
            autoscaling=_autoscaling(pool),
            # The autoscaler owns the count: it is no difference between the program and the cloud.
            ignore_node_count_changes=True,
            # GKE refuses repairs of machines that start when there is room.
            management={"auto_repair": not pool.waits_for_room, "auto_upgrade": True},
            node_config=_node_config(pool, {**plan.bill_labels, **labels}),
            network_config=profile,
            queued_provisioning=queued,
            placement_policy=self._placement(child, plan, pool, labels),
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=[*kept_deadline("nodeConfig.resourceLabels"), *SERVER_FILLED]
            ),
        )

    def _placement(
        self, child: str, plan: JobPlan, pool: NodePoolPlan, labels: Mapping[str, str]
    ) -> gcp.container.NodePoolPlacementPolicyArgsDict | None:
        """A TPU slice of several hosts is placed as one; a topology on a slice of one host is refused by GKE."""
        if pool.compact:
            return {"type": "COMPACT"}
        if pool.tpu_topology is None or not pool.multi_host:
            return None
        if pool.workload_policy is None:
            return {"type": "COMPACT", "tpu_topology": pool.tpu_topology}
        policy = gcp.compute.ResourcePolicy(
            child,
            name=pool.name,
            region=plan.cluster_region,
            project=plan.project,
            # It carries no labels: its description is how it is found again.
            description=marks(labels),
            workload_policy={"type": pool.workload_policy, "accelerator_topology": pool.tpu_topology},
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["description"]),
        )
        # The provider wants a type beside the policy's name, and GKE wants none.
        return {"type": "", "policy_name": policy.name}


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
        "max_run_duration": f"{pool.max_run_duration_seconds}s",
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
