"""Networks and subnetworks.

Sources: cloud.google.com/compute/docs/reference/rest/v1/networks and .../subnetworks,
cloud.google.com/vpc/docs/subnets#valid-ranges. Defaults: belief ``compute-fills-networks``.
"""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule, choice
from encamp_sandbox.cloud.rest.values import default, short
from encamp_sandbox.cloud.services.compute.style import NAME, Compute, global_name, link, numeric_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_SHORTEST_PREFIX = 29
_SMALLEST_MTU, _LARGEST_MTU = 1300, 8896


def _mtu(change: Change) -> Problem:
    mtu = change.at("mtu")
    if mtu is None or _SMALLEST_MTU <= int(mtu) <= _LARGEST_MTU:
        return None
    return f"Invalid value for field 'resource.mtu': '{mtu}'. Must be from {_SMALLEST_MTU} to {_LARGEST_MTU}."


def _fill_network(change: Change) -> None:
    default(
        change.body,
        {
            "id": numeric_id(),
            "autoCreateSubnetworks": True,
            "routingConfig.routingMode": "REGIONAL",
            "mtu": 1460,
            "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        },
    )


def _show_network(network: CloudResource, cloud: Cloud) -> dict[str, Any]:
    own = [one for one in cloud.store.all_of("subnetwork") if one.body["network"] == link(network.name)]
    shown: dict[str, Any] = {"selfLinkWithId": f"{link(network.parent)}/networks/{network.body['id']}"}
    return {**shown, "subnetworks": [link(one.name) for one in own]} if own else shown


def _network_users(network: CloudResource, cloud: Cloud) -> list[str]:
    return [
        other.name
        for kind in ("subnetwork", "router", "cluster")
        for other in cloud.store.all_of(kind)
        if short(other.body.get("network") or "default") == network.short_name
    ]


NETWORKS: Final = Collection(
    kind="network",
    path="projects/{project}/global/networks",
    style=Compute("compute#network"),
    permission="compute.networks",
    rules=(
        NAME,
        choice("compute-routing-modes", "routingConfig.routingMode", ("REGIONAL", "GLOBAL")),
        Rule("compute-mtu-range", _mtu),
    ),
    fill=_fill_network,
    show=_show_network,
    users=_network_users,
    update=Update.MERGE,
    fixed=("autoCreateSubnetworks", "description"),
)


def ranges_of(body: dict[str, Any]) -> list[str]:
    """Return the primary and the secondary ranges of a subnetwork."""
    secondary = [one.get("ipCidrRange") for one in body.get("secondaryIpRanges") or () if one.get("ipCidrRange")]
    return [str(body.get("ipCidrRange") or ""), *secondary]


def _valid_ranges(change: Change) -> Problem:
    for text in ranges_of(change.body):
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            return f"Invalid value for field 'resource.ipCidrRange': '{text}'. Must be a CIDR address range."
        if network.prefixlen > _SHORTEST_PREFIX:
            return f"Invalid value for field 'resource.ipCidrRange': '{text}'. The range is smaller than a /29."
    return None


def _own_overlap(change: Change) -> Problem:
    networks = [ipaddress.ip_network(text) for text in ranges_of(change.body)]
    for index, one in enumerate(networks):
        if any(one.overlaps(other) for other in networks[index + 1 :]):
            return f"Invalid IPCidrRange: {one} conflicts with another range of the same subnetwork."
    return None


def _overlap(change: Change) -> Problem:
    wanted = [ipaddress.ip_network(text) for text in ranges_of(change.body)]
    for other in change.cloud.store.all_of("subnetwork"):
        if other.name == change.name or short(other.body["network"]) != short(change.at("network")):
            continue
        for text in ranges_of(other.body):
            if any(ipaddress.ip_network(text).overlaps(one) for one in wanted):
                found = f"conflicts with existing subnetwork '{other.short_name}' ({text})"
                return f"Invalid IPCidrRange: {wanted[0]} {found}."
    return None


def network_of(change: Change) -> Iterable[str]:
    """Return the network that a subnetwork or a router lies in, which has to exist."""
    given = change.at("network")
    if not given:
        raise GoogleError(400, "Invalid value for field 'resource.network': ''. It is required.", reason="required")
    return (global_name(given, "networks", change.project),)


def _fill_subnetwork(change: Change) -> None:
    change.body["network"] = link(global_name(change.body["network"], "networks", change.project))
    default(
        change.body,
        {
            "id": numeric_id(),
            "privateIpGoogleAccess": False,
            "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
            "purpose": "PRIVATE",
            "stackType": "IPV4_ONLY",
            "logConfig": {"enable": False},
        },
    )
    change.body.pop("region", None)


def _show_subnetwork(subnetwork: CloudResource, cloud: Cloud) -> dict[str, Any]:
    del cloud
    return {"gatewayAddress": str(next(ipaddress.ip_network(subnetwork.body["ipCidrRange"]).hosts()))}


def _subnetwork_users(subnetwork: CloudResource, cloud: Cloud) -> list[str]:
    return [
        cluster.name
        for cluster in cloud.store.all_of("cluster")
        if short(cluster.body.get("subnetwork") or "default") == subnetwork.short_name
    ]


SUBNETWORKS: Final = Collection(
    kind="subnetwork",
    path="projects/{project}/regions/{region}/subnetworks",
    style=Compute("compute#subnetwork", fingerprint=True),
    permission="compute.subnetworks",
    rules=(
        NAME,
        Rule("compute-subnetwork-ranges", _valid_ranges),
        Rule("compute-subnetwork-own-overlap", _own_overlap),
        Rule("compute-subnetwork-overlap", _overlap),
    ),
    needs=network_of,
    fill=_fill_subnetwork,
    show=_show_subnetwork,
    users=_subnetwork_users,
    update=Update.MERGE,
    fixed=("network", "purpose", "privateIpGoogleAccess", "ipCidrRange"),
)


async def _set_field(ask: Ask, *, field: str) -> dict[str, Any]:
    """Change the one field that a method of its own changes."""
    name = ask.parent
    ask.require("compute.subnetworks.update", name)
    body = await ask.call.json()
    present = SUBNETWORKS.find(name, ask.cloud)
    if field == "ipCidrRange":
        old, new = (ipaddress.ip_network(str(one[field])) for one in (present.body, body))
        if not old.subnet_of(new):  # type: ignore[arg-type]
            raise GoogleError(400, f"Invalid IPCidrRange: {new} does not contain {old}.", reason="invalid")
    resource = ask.cloud.store.merge(name, {field: body[field]})
    return SUBNETWORKS.style.changed(resource, {}, ask.cloud)


_ONE: Final = "projects/{project}/regions/{region}/subnetworks/{subnetwork}"
SUBNETWORK_METHODS: Final = tuple(
    Route(f"{_ONE}/{verb}", ("POST",), partial(_set_field, field=field), operation="update", collection="subnetworks")
    for verb, field in (
        ("setPrivateIpGoogleAccess", "privateIpGoogleAccess"),
        ("expandIpCidrRange", "ipCidrRange"),
    )
)
