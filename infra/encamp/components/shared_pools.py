"""Node pools that the jobs of an environment's queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

from encamp.components.node_pool import node_pool
from encamp.components.pool_timeouts import pool_timeouts
from encamp.components.server_filled import SERVER_FILLED
from encamp.plan.environment.queues import FLAVOR_LABEL

if TYPE_CHECKING:
    from encamp.components.cluster import Cluster
    from encamp.plan.model import EnvironmentPlan


class SharedPools(pulumi.ComponentResource):
    """Every shared pool; they may be made as soon as the cluster's own pool stands.

    Their machines carry the environment's labels and their kind on the bill: which job a machine works for changes.
    """

    def __init__(
        self, name: str, plan: EnvironmentPlan, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("encamp:components:SharedPools", name, {}, opts)
        for pool in plan.shared_pools:
            node_pool(
                pool.name.removeprefix(f"{plan.name}-"),
                pool,
                cluster=cluster.cluster.name,
                place=(plan.project, plan.region),
                labels={**plan.labels, FLAVOR_LABEL: pool.labels[FLAVOR_LABEL]},
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=cluster.ready,
                    ignore_changes=list(SERVER_FILLED),
                    custom_timeouts=pool_timeouts(),
                ),
            )
        self.register_outputs({})
