"""Networks, subnetworks, routers and address translation."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.common import COMPUTE_NAME, COMPUTE_NAME_SOURCE, DELETION_POLICY, PROJECT
from encamp.sandbox.cloud.gcp.model import ResourceType, Rule, choice_rule, pattern_rule, short
from encamp.sandbox.cloud.gcp.stored import StoredBackend

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.gcp.stored import Namer
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_COMPUTE = "https://www.googleapis.com/compute/v1"
_NAME_RULE = pattern_rule("name", "name", COMPUTE_NAME, COMPUTE_NAME_SOURCE, f"doesn't match regexp {COMPUTE_NAME!r}")
_SUBNETS_SOURCE = "cloud.google.com/vpc/docs/subnets"
_SHORTEST_PREFIX = 29


def _below(collection: str) -> Namer:
    def name(inputs: Properties, context: Context) -> str:
        return f"projects/{context.project}/regions/{context.region_of(inputs)}/{collection}/{inputs['name']}"

    return name


def network_name(value: object, context: Context) -> str:
    """The full name of a network that is given by name, full name or self link."""
    return f"projects/{context.project}/global/networks/{short(value)}"


def subnetwork_name(value: object, region: str, context: Context) -> str:
    """The full name of a subnetwork that is given by name, full name or self link."""
    return f"projects/{context.project}/regions/{region}/subnetworks/{short(value)}"


def _compute_link(resource: CloudResource, _: Context) -> dict[str, Any]:
    return {"selfLink": f"{_COMPUTE}/{resource.name}"}


def _network_users(resource: CloudResource, context: Context) -> list[str]:
    store = context.cloud.store
    return [
        other.name
        for kind in ("subnetwork", "router", "cluster")
        for other in store.all_of(kind)
        if network_name(other.body["inputs"].get("network") or "default", context) == resource.name
    ]


def _numeric(inputs: Properties, context: Context) -> dict[str, Any]:
    from secrets import randbelow  # noqa: PLC0415 - beside its only use

    del inputs, context
    return {"numericId": str(10**18 + randbelow(8 * 10**18))}


def _network_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    number = resource.body["facts"]["numericId"]
    return {**_compute_link(resource, context), "networkId": number, "numericId": number, "gatewayIpv4": ""}


NETWORK: Final = ResourceType(
    "gcp:compute/network:Network",
    wheel=("pulumi_gcp.compute", "Network"),
    backend=StoredBackend(
        kind="network",
        full_name=lambda inputs, context: network_name(inputs["name"], context),
        facts=_numeric,
        outputs=_network_outputs,
        users=_network_users,
        defaults={
            "autoCreateSubnetworks": True,
            "deleteDefaultRoutesOnCreate": False,
            "routingMode": "REGIONAL",
            "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
            "mtu": 1460,
        },
    ),
    required=(),
    immutable=("name", "project", "autoCreateSubnetworks", "description", "networkProfile", "enableUlaInternalIpv6"),
    computed=("selfLink", "networkId", "numericId", "gatewayIpv4"),
    rules=(
        PROJECT,
        _NAME_RULE,
        DELETION_POLICY,
        choice_rule(
            "routing mode", "routingMode", ("REGIONAL", "GLOBAL"),
            "cloud.google.com/compute/docs/reference/rest/v1/networks",
        ),
    ),
    autoname="name",
)  # fmt: skip


def _ranges(inputs: Properties) -> list[str]:
    secondary = [item.get("ipCidrRange") for item in inputs.get("secondaryIpRanges") or () if item.get("ipCidrRange")]
    return [inputs["ipCidrRange"], *secondary]


def _range_problem(inputs: Properties, _: Context) -> Problem:
    for text in _ranges(inputs):
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            return f"Invalid value for field 'resource.ipCidrRange': '{text}'. Must be a CIDR address range."
        if network.prefixlen > _SHORTEST_PREFIX:
            return f"Invalid value for field 'resource.ipCidrRange': '{text}'. The range is smaller than a /29."
    return None


def _overlap(inputs: Properties, context: Context) -> Problem:
    mine = _ranges(inputs)
    own = short(inputs["name"])
    for other in context.cloud.store.all_of("subnetwork"):
        same_network = short(other.body["inputs"]["network"]) == short(inputs["network"])
        if not same_network or other.short_name == own:
            continue
        for text in _ranges(other.body["inputs"]):
            taken = ipaddress.ip_network(text)
            if any(taken.overlaps(ipaddress.ip_network(wanted)) for wanted in mine):
                return (
                    f"Invalid IPCidrRange: {mine[0]} conflicts with existing subnetwork '{other.short_name}' ({text})."
                )
    return None


def _own_overlap(inputs: Properties, _: Context) -> Problem:
    networks = [ipaddress.ip_network(text) for text in _ranges(inputs)]
    for index, one in enumerate(networks):
        if any(one.overlaps(other) for other in networks[index + 1 :]):
            return f"Invalid IPCidrRange: {one} conflicts with another range of the same subnetwork."
    return None


def _subnetwork_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    inputs = resource.body["inputs"]
    gateway = str(next(ipaddress.ip_network(inputs["ipCidrRange"]).hosts()))
    return {
        **_compute_link(resource, context),
        "region": context.region_of(inputs),
        "network": f"{_COMPUTE}/{network_name(inputs['network'], context)}",
        "gatewayAddress": gateway,
        "fingerprint": resource.etag,
        "creationTimestamp": resource.created,
        "subnetworkId": resource.body["facts"]["subnetworkId"],
    }


def _subnetwork_users(resource: CloudResource, context: Context) -> list[str]:
    return [
        other.name
        for other in context.cloud.store.all_of("cluster")
        if short(other.body["inputs"].get("subnetwork") or "") == resource.short_name
    ]


_RANGE_READS = ("ipCidrRange", "secondaryIpRanges", "network", "name")

SUBNETWORK: Final = ResourceType(
    "gcp:compute/subnetwork:Subnetwork",
    wheel=("pulumi_gcp.compute", "Subnetwork"),
    backend=StoredBackend(
        kind="subnetwork",
        full_name=_below("subnetworks"),
        facts=lambda inputs, context: {"subnetworkId": int(_numeric(inputs, context)["numericId"][:15])},
        outputs=_subnetwork_outputs,
        parents=lambda inputs, context: [network_name(inputs["network"], context)],
        users=_subnetwork_users,
        defaults={"privateIpGoogleAccess": False, "purpose": "PRIVATE", "stackType": "IPV4_ONLY"},
    ),
    required=("ipCidrRange", "network"),
    immutable=("name", "project", "network", "region", "description", "purpose", "reservedInternalRange"),
    computed=("selfLink", "gatewayAddress", "fingerprint", "creationTimestamp", "subnetworkId"),
    rules=(
        PROJECT,
        _NAME_RULE,
        DELETION_POLICY,
        Rule("ranges", _SUBNETS_SOURCE + "#valid-ranges", ("ipCidrRange", "secondaryIpRanges"), _range_problem),
        Rule(
            "own overlap",
            _SUBNETS_SOURCE + "#limitations",
            ("ipCidrRange", "secondaryIpRanges"),
            _own_overlap,
            api=True,
        ),
        Rule("overlap", _SUBNETS_SOURCE + "#limitations", _RANGE_READS, _overlap, api=True),
    ),
    autoname="name",
)


def _router_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    inputs = resource.body["inputs"]
    return {
        **_compute_link(resource, context),
        "region": context.region_of(inputs),
        "network": f"{_COMPUTE}/{network_name(inputs['network'], context)}",
        "creationTimestamp": resource.created,
    }


ROUTER: Final = ResourceType(
    "gcp:compute/router:Router",
    wheel=("pulumi_gcp.compute", "Router"),
    backend=StoredBackend(
        kind="router",
        full_name=_below("routers"),
        outputs=_router_outputs,
        parents=lambda inputs, context: [network_name(inputs["network"], context)],
        defaults={"encryptedInterconnectRouter": False},
    ),
    required=("network",),
    immutable=("name", "project", "network", "region", "encryptedInterconnectRouter"),
    computed=("selfLink", "creationTimestamp"),
    rules=(PROJECT, _NAME_RULE, DELETION_POLICY),
    autoname="name",
)


def _router_of(inputs: Properties, context: Context) -> str:
    return f"projects/{context.project}/regions/{context.region_of(inputs)}/routers/{short(inputs['router'])}"


def _nat_subnetworks(inputs: Properties, _: Context) -> Problem:
    listed = inputs.get("sourceSubnetworkIpRangesToNat") == "LIST_OF_SUBNETWORKS"
    if listed == bool(inputs.get("subnetworks")):
        return None
    return "subnetworks have to be given if, and only if, source_subnetwork_ip_ranges_to_nat is LIST_OF_SUBNETWORKS"


_NAT_SOURCE = "cloud.google.com/compute/docs/reference/rest/v1/routers#Router.nats"

ROUTER_NAT: Final = ResourceType(
    "gcp:compute/routerNat:RouterNat",
    wheel=("pulumi_gcp.compute", "RouterNat"),
    backend=StoredBackend(
        kind="routerNat",
        full_name=lambda inputs, context: f"{_router_of(inputs, context)}/nats/{inputs['name']}",
        identifier=lambda inputs, context: (
            f"{context.project}/{context.region_of(inputs)}/{short(inputs['router'])}/{inputs['name']}"
        ),
        by_id=lambda resource_id: "projects/{}/regions/{}/routers/{}/nats/{}".format(*resource_id.split("/")[-4:]),
        outputs=lambda resource, context: {"region": context.region_of(resource.body["inputs"])},
        parents=lambda inputs, context: [_router_of(inputs, context)],
        defaults={
            "enableDynamicPortAllocation": False,
            "enableEndpointIndependentMapping": False,
            "icmpIdleTimeoutSec": 30,
            "tcpEstablishedIdleTimeoutSec": 1200,
            "tcpTimeWaitTimeoutSec": 120,
            "tcpTransitoryIdleTimeoutSec": 30,
            "udpIdleTimeoutSec": 30,
            "type": "PUBLIC",
            "autoNetworkTier": "PREMIUM",
        },
    ),
    required=("router", "sourceSubnetworkIpRangesToNat"),
    immutable=("name", "project", "router", "region", "endpointTypes", "type"),
    computed=(),
    rules=(
        PROJECT,
        _NAME_RULE,
        DELETION_POLICY,
        choice_rule("allocation", "natIpAllocateOption", ("MANUAL_ONLY", "AUTO_ONLY"), _NAT_SOURCE),
        choice_rule(
            "ranges", "sourceSubnetworkIpRangesToNat",
            ("ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES", "LIST_OF_SUBNETWORKS"),
            _NAT_SOURCE,
        ),
        Rule("subnetworks", _NAT_SOURCE, ("sourceSubnetworkIpRangesToNat", "subnetworks"), _nat_subnetworks, api=True),
    ),
    autoname="name",
)  # fmt: skip
