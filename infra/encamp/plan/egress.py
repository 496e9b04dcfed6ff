"""Egress of a job's replicas: each other, DNS, Google's metadata server and the public internet.

Everything private is closed: other jobs, drivers, the record's database, the API server. Google's APIs have public
addresses, those of Private Google Access among them (199.36.153.4/30, 199.36.153.8/30). A job file opens more, as far
as its environment allows it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec

#: Addresses that are nobody's on the internet (RFC 6890).
_PRIVATE = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
#: Ports of the web: Google's APIs, registries of packages, and mirrors of distributions without TLS.
WEB_PORTS = (80, 443)
#: GKE's metadata server, which gives a pod its account's tokens, without and with Dataplane V2.
#: Belief: gke-network-policy-metadata.
METADATA = (("169.254.169.252/32", 988), ("169.254.169.254/32", 80))
#: NodeLocal DNSCache, and Cloud DNS for GKE. Belief: gke-network-policy-dns.
RESOLVERS = ("169.254.20.10/32", "169.254.169.254/32")


@dataclass(frozen=True)
class EgressPlan:
    """Addresses beyond the job's own replicas.

    Attributes:
        closed: what is not reached of the internet's addresses, by CIDR.
        opened: what the job file opens, every port.
    """

    closed: tuple[str, ...]
    opened: tuple[str, ...] = ()


def plan_egress(job: TrainingJobSpec, environment: EnvironmentSpec) -> EgressPlan:
    """Decide where a job's replicas may connect to.

    Raises:
        PlanError: the job opens what its environment does not allow.
    """
    own = (environment.subnetwork_cidr, environment.pods_cidr, environment.services_cidr)
    private = [ipaddress.IPv4Network(each) for each in (*_PRIVATE, *own)]
    closed = tuple(str(each) for each in ipaddress.collapse_addresses(private))
    allowed = [ipaddress.IPv4Network(each) for each in environment.job_egress]
    opened: list[ipaddress.IPv4Network] = []
    for index, text in enumerate(job.encamp.egress or ()):
        network = ipaddress.IPv4Network(text)
        if not any(network.subnet_of(each) for each in allowed):
            permitted = ", ".join(map(str, allowed)) or "none"
            raise PlanError(
                f"the environment {environment.name} lets no job connect to {network}; networks that it allows: "
                f"{permitted}",
                where=f"encamp.egress[{index}]",
                hint="whoever runs the environment adds it to jobEgress of its stack config",
            )
        opened.append(network)
    return EgressPlan(closed, tuple(map(str, sorted(opened))))
