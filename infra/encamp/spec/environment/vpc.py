"""The ``vpc`` block of an environment: the network that it creates or adopts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

#: MTUs that Compute Engine accepts for a network (cloud.google.com/vpc/docs/mtu).
SMALLEST_MTU, LARGEST_MTU = 1300, 8896
#: Ports of Cloud NAT a machine, powers of two (cloud.google.com/nat/docs/ports-and-addresses).
FEWEST_PORTS, MOST_PORTS = 64, 32768

_RANGE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")


class VpcSpec(Written):
    """The VPC network and its Cloud NAT."""

    host_project: Text | None = None
    """Project of a Shared VPC that an adopted network is in; the environment's own when absent."""
    pods_range: Text = "pods"
    """Name of the subnetwork's secondary range of pods."""
    services_range: Text = "services"
    """Name of the subnetwork's secondary range of services."""
    mtu: Int64 = 1460
    """Largest packet in bytes; 8896 makes all-reduce between machines faster. It cannot change while machines run."""
    nat_ports_per_machine: Int64 = 64
    """Ports of Cloud NAT a machine at least; more come when it needs them, up to 32768."""
    flow_logs: Flag = False
    """A sample of connections is logged; it costs."""


def vpc_problems(vpc: VpcSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    for name in ("pods_range", "services_range"):
        value = getattr(vpc, name)
        if not _RANGE.fullmatch(value):
            yield Found((name,), f"{value!r} must be a lowercase letter, then letters, digits and -")
    if vpc.pods_range == vpc.services_range:
        yield Found(("services_range",), "must be another range than that of pods")
    if not SMALLEST_MTU <= vpc.mtu <= LARGEST_MTU:
        yield Found(("mtu",), f"{vpc.mtu} must be from {SMALLEST_MTU} to {LARGEST_MTU}")
    ports = vpc.nat_ports_per_machine
    if not FEWEST_PORTS <= ports <= MOST_PORTS or ports & (ports - 1):
        yield Found(("nat_ports_per_machine",), f"{ports} must be a power of two from {FEWEST_PORTS} to {MOST_PORTS}")
    yield from _made(vpc, environment)


def _made(vpc: VpcSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield fields that do not fit the network's origin: created here, adopted, or the adopted cluster's."""
    if "cluster" in environment.adopt:
        yield Found((), "is of a network that is made or taken, and an adopted cluster has its own", "leave it out")
    elif "network" in environment.adopt:
        for name in sorted({"mtu", "nat_ports_per_machine", "flow_logs"} & vpc.model_fields_set):
            yield Found((name,), "is of a network that is made, and this one is adopted", "leave it out")
    elif vpc.host_project is not None:
        message = "is of a network that is adopted, and this one is made"
        yield Found(("host_project",), message, "write adopt: [network], or leave it out")
    if vpc.host_project is not None and not _PROJECT.fullmatch(vpc.host_project):
        yield Found(("host_project",), f"{vpc.host_project!r} must be a project id, such as my-project")
