"""Node pools of a job's own: one a machine shape. A job in a queue has few: most machines are its environment's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import kept_deadline, marks
from encamp.components.node_pool import node_pool
from encamp.components.pool_timeouts import pool_timeouts
from encamp.components.server_filled import SERVER_FILLED
from encamp.plan.declared import pool_child_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, NodePoolPlan


class JobNodePools(pulumi.ComponentResource):
    """Every pool that the job makes.

    Args:
        prefix: of the logical names of what it is made of.

    Attributes:
        pools: the pools in the plan's order.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        cluster: pulumi.Input[str],
        labels: Mapping[str, str],
        *,
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobNodePools", name, {}, opts)
        self._prefix = prefix
        self.pools = [self._pool(plan, pool, cluster, labels) for pool in plan.own_pools]
        self.register_outputs({})

    def _pool(
        self, plan: JobPlan, pool: NodePoolPlan, cluster: pulumi.Input[str], labels: Mapping[str, str]
    ) -> gcp.container.NodePool:
        child = f"{self._prefix}{pool_child_name(plan, pool)}"
        return node_pool(
            child,
            pool,
            cluster=cluster,
            place=(plan.project, plan.cluster_region),
            labels={**plan.bill_labels, **labels},
            placement=self._placement(child, plan, pool, labels),
            opts=pulumi.ResourceOptions(
                parent=self,
                ignore_changes=[*kept_deadline("nodeConfig.resourceLabels"), *SERVER_FILLED],
                custom_timeouts=pool_timeouts(),
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
