"""The environment's network: a VPC of its own, one regional subnetwork, and Cloud NAT for private nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

#: Names of the subnetwork's secondary ranges, which the cluster refers to.
PODS_RANGE = "pods"
SERVICES_RANGE = "services"


class Network(pulumi.ComponentResource):
    """A VPC-native network in which nodes have no public address and reach out through Cloud NAT.

    Attributes:
        network: the VPC.
        subnetwork: the regional subnetwork with the ranges ``pods`` and ``services``.
    """

    def __init__(self, name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("encamp:components:Network", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.network = gcp.compute.Network(name, name=plan.network, auto_create_subnetworks=False, opts=child)
        self.subnetwork = gcp.compute.Subnetwork(
            name,
            name=plan.subnetwork,
            network=self.network.id,
            region=plan.region,
            ip_cidr_range=plan.subnetwork_cidr,
            private_ip_google_access=True,
            secondary_ip_ranges=[
                {"range_name": PODS_RANGE, "ip_cidr_range": plan.pods_cidr},
                {"range_name": SERVICES_RANGE, "ip_cidr_range": plan.services_cidr},
            ],
            opts=child,
        )
        router = gcp.compute.Router(
            name, name=f"{plan.network}-router", network=self.network.id, region=plan.region, opts=child
        )
        gcp.compute.RouterNat(
            name,
            name=f"{plan.network}-nat",
            router=router.name,
            region=plan.region,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            opts=child,
        )
        self.register_outputs({})
