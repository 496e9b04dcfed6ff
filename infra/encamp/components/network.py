"""The environment's network: a VPC of its own, one regional subnetwork, and Cloud NAT for private nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

#: A log line for one connection in so many.
_SAMPLED = 0.1


class Network(pulumi.ComponentResource):
    """A VPC-native network in which nodes have no public address and reach out through Cloud NAT.

    One that is adopted is read, which fails where it is not there, and keeps its own ways out.

    Attributes:
        network: id of the VPC.
        subnetwork: id of the regional subnetwork, which has secondary ranges for pods and services.
    """

    def __init__(self, name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("encamp:components:Network", name, {}, opts)
        self._plan = plan
        child = pulumi.ResourceOptions(parent=self)
        if "network" in plan.adopted:
            network = gcp.compute.Network.get(name, plan.vpc.network, opts=child)
            subnetwork = gcp.compute.Subnetwork.get(name, plan.vpc.subnetwork, opts=child)
        else:
            network = gcp.compute.Network(
                name, name=plan.network, auto_create_subnetworks=False, mtu=plan.vpc.mtu, opts=child
            )
            subnetwork = self._subnetwork(name, network, child)
            self._way_out(name, network, child)
        self.network: pulumi.Output[str] = network.id
        self.subnetwork: pulumi.Output[str] = subnetwork.id
        self.register_outputs({})

    def _subnetwork(
        self, name: str, network: gcp.compute.Network, opts: pulumi.ResourceOptions
    ) -> gcp.compute.Subnetwork:
        plan, vpc = self._plan, self._plan.vpc
        logs: gcp.compute.SubnetworkLogConfigArgsDict | None = None
        if vpc.flow_logs:
            logs = {"aggregation_interval": "INTERVAL_10_MIN", "flow_sampling": _SAMPLED}
        return gcp.compute.Subnetwork(
            name,
            name=plan.subnetwork,
            network=network.id,
            region=plan.region,
            ip_cidr_range=plan.subnetwork_cidr,
            # Google's own APIs are reached without Cloud NAT.
            private_ip_google_access=True,
            secondary_ip_ranges=[
                {"range_name": vpc.pods_range, "ip_cidr_range": plan.pods_cidr},
                {"range_name": vpc.services_range, "ip_cidr_range": plan.services_cidr},
            ],
            log_config=logs,
            opts=opts,
        )

    def _way_out(self, name: str, network: gcp.compute.Network, opts: pulumi.ResourceOptions) -> None:
        """Images and packages from outside of Google come through Cloud NAT."""
        plan, vpc = self._plan, self._plan.vpc
        fewest, most = vpc.nat_ports
        router = gcp.compute.Router(name, name=vpc.router, network=network.id, region=plan.region, opts=opts)
        gcp.compute.RouterNat(
            name,
            name=vpc.nat,
            router=router.name,
            region=plan.region,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            enable_dynamic_port_allocation=True,
            # Google has no dynamic ports together with mappings that are the same for every endpoint.
            enable_endpoint_independent_mapping=False,
            min_ports_per_vm=fewest,
            max_ports_per_vm=most,
            log_config={"enable": True, "filter": "ERRORS_ONLY"},
            opts=opts,
        )
