"""The environment's regional GKE cluster. It comes without nodes: every job brings pools of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.cloud.gke_kubeconfig import gke_kubeconfig
from encamp.components.network import PODS_RANGE, SERVICES_RANGE

if TYPE_CHECKING:
    from encamp.components.network import Network
    from encamp.plan.model import EnvironmentPlan


class Cluster(pulumi.ComponentResource):
    """A regional Standard cluster with Workload Identity, private nodes and GCS FUSE.

    Attributes:
        cluster: the GKE cluster, its default pool removed.
        kubeconfig: a kubeconfig that asks ``gke-gcloud-auth-plugin`` for tokens, so it holds no secret and
            never changes between two previews.
    """

    def __init__(
        self, name: str, plan: EnvironmentPlan, network: Network, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("encamp:components:Cluster", name, {}, opts)
        self.cluster = gcp.container.Cluster(
            name,
            name=plan.cluster,
            location=plan.region,
            node_locations=list(plan.zones),
            network=network.network.id,
            subnetwork=network.subnetwork.id,
            networking_mode="VPC_NATIVE",
            ip_allocation_policy={
                "cluster_secondary_range_name": PODS_RANGE,
                "services_secondary_range_name": SERVICES_RANGE,
            },
            # GKE makes no cluster without a first pool; it is removed as soon as the cluster stands.
            initial_node_count=1,
            remove_default_node_pool=True,
            private_cluster_config={"enable_private_nodes": True},
            workload_identity_config={"workload_pool": f"{plan.project}.svc.id.goog"},
            release_channel={"channel": "REGULAR"},
            addons_config={"gcs_fuse_csi_driver_config": {"enabled": True}},
            cost_management_config={"enabled": True},
            resource_labels=dict(plan.labels),
            deletion_protection=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.kubeconfig: pulumi.Output[str] = pulumi.Output.all(
            self.cluster.endpoint, self.cluster.master_auth.cluster_ca_certificate
        ).apply(lambda given: gke_kubeconfig(plan.cluster, given[0], given[1]))
        self.register_outputs({})
