"""Cloud Routers with their address translation (Cloud NAT), which is a list inside a router.

Source: cloud.google.com/compute/docs/reference/rest/v1/routers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.rules import Rule
from encamp_sandbox.cloud.rest.values import default
from encamp_sandbox.cloud.services.compute.networks import network_of
from encamp_sandbox.cloud.services.compute.style import NAME, Compute, global_name, link, numeric_id

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change, Problem

_ALLOCATIONS = ("MANUAL_ONLY", "AUTO_ONLY")
_RANGES = ("ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES", "LIST_OF_SUBNETWORKS")
_LISTED = "LIST_OF_SUBNETWORKS"


def _nats(change: Change) -> list[dict[str, Any]]:
    return list(change.at("nats") or ())


def _nat_words(change: Change) -> Problem:
    for nat in _nats(change):
        for key, words in (("natIpAllocateOption", _ALLOCATIONS), ("sourceSubnetworkIpRangesToNat", _RANGES)):
            if nat.get(key) not in (None, *words):
                return f"Invalid value for field 'resource.nats[].{key}': '{nat[key]}', expected one of {list(words)}."
    return None


def _nat_names(change: Change) -> Problem:
    names = [nat.get("name") for nat in _nats(change)]
    doubled = next((name for name in names if names.count(name) > 1), None)
    return None if doubled is None else f"Invalid value for field 'resource.nats': '{doubled}' is given twice."


def _nat_subnetworks(change: Change) -> Problem:
    for nat in _nats(change):
        listed = nat.get("sourceSubnetworkIpRangesToNat") == _LISTED
        if listed != bool(nat.get("subnetworks")):
            field = "Invalid value for field 'resource.nats[].subnetworks'"
            return f"{field}: they are given if, and only if, the ranges are {_LISTED}."
    return None


def _nat_ports(change: Change) -> Problem:
    for nat in _nats(change):
        if nat.get("enableDynamicPortAllocation") and nat.get("enableEndpointIndependentMapping"):
            return "Dynamic Port Allocation cannot be enabled together with Endpoint-Independent Mapping."
        for key in ("minPortsPerVm", "maxPortsPerVm"):
            ports = int(nat.get(key) or 0)
            if nat.get("enableDynamicPortAllocation") and ports & (ports - 1):
                return f"Invalid value for field 'resource.nats[].{key}': '{ports}'. Must be a power of 2."
    return None


def _fill(change: Change) -> None:
    change.body["network"] = link(global_name(change.body["network"], "networks", change.project))
    change.body.pop("region", None)
    default(change.body, {"id": numeric_id(), "encryptedInterconnectRouter": False})
    _fill_nats(change)


def _fill_nats(change: Change) -> None:
    for nat in _nats(change):
        dynamic = bool(nat.get("enableDynamicPortAllocation"))
        default(
            nat,
            {
                "type": "PUBLIC",
                "enableDynamicPortAllocation": False,
                "enableEndpointIndependentMapping": False,
                "endpointTypes": ["ENDPOINT_TYPE_VM"],
                "autoNetworkTier": "PREMIUM",
                "icmpIdleTimeoutSec": 30,
                "tcpEstablishedIdleTimeoutSec": 1200,
                "tcpTimeWaitTimeoutSec": 120,
                "tcpTransitoryIdleTimeoutSec": 30,
                "udpIdleTimeoutSec": 30,
                "minPortsPerVm": 32 if dynamic else 64,
            },
        )


ROUTERS: Final = Collection(
    kind="router",
    path="projects/{project}/regions/{region}/routers",
    style=Compute("compute#router"),
    permission="compute.routers",
    rules=(
        NAME,
        Rule("nat-has-known-words", _nat_words),
        Rule("nat-names-are-unique", _nat_names),
        Rule("nat-lists-subnetworks-or-none", _nat_subnetworks),
        Rule("nat-dynamic-ports", _nat_ports),
    ),
    needs=network_of,
    fill=_fill,
    mend=_fill_nats,
    update=Update.MERGE,
    fixed=("network", "encryptedInterconnectRouter"),
)
