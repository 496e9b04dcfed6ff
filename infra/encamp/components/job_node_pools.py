"""A job's node pools: one a machine shape, empty until replicas are pending, tainted so that nothing else lands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import kept_deadline

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
        return gcp.container.NodePool(
            pool.name.removeprefix(f"{plan.name}-"),
            name=pool.name,
            cluster=cluster,
            location=plan.cluster_region,
            project=plan.project,
            autoscaling={
                "total_min_node_count": pool.min_nodes,
                "total_max_node_count": pool.max_nodes,
                # Any zone that has the machine will do.
                "location_policy": "ANY",
            },
            # The autoscaler owns the count: it is no difference between the program and the cloud.
            ignore_node_count_changes=True,
            management={"auto_repair": True, "auto_upgrade": True},
            node_config=_node_config(pool, labels),
            placement_policy=_placement(pool),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=kept_deadline("nodeConfig.resourceLabels")),
        )


def _placement(pool: NodePoolPlan) -> gcp.container.NodePoolPlacementPolicyArgsDict | None:
    """A TPU slice of several hosts is placed as one; a topology on a slice of one host is refused by GKE."""
    if pool.tpu_topology is None or (pool.tpu_hosts or 1) == 1:
        return None
    return {"type": "COMPACT", "tpu_topology": pool.tpu_topology}


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
    if pool.accelerator is not None and pool.tpu_topology is None:
        config["guest_accelerators"] = [
            {
                "type": pool.accelerator.type,
                "count": pool.accelerator.count,
                "gpu_driver_installation_config": {"gpu_driver_version": "DEFAULT"},
            }
        ]
    return config
