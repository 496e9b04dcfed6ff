"""GKE's rules for a node pool, whatever its machines.

Several rules are not in the API's reference but in what Google's own modules check before they call it
(GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool/main.tf, lifecycle preconditions).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.rules import Rule, name_pattern
from encamp_sandbox.cloud.rest.values import at
from encamp_sandbox.cloud.services.container.zones import ZONE, region_of
from encamp_sandbox.cloud.services.kms.use import key_use

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change, Problem

NAME: Final = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
NAME_PROBLEM: Final = (
    '"name" ("{value}") must be at most 40 lowercase letters, digits and hyphens, begin with a letter and end with no'
    " hyphen"
)
_LONGEST_RUN_SECONDS = 120 * 24 * 3600
_LONGEST_FLEX_START_SECONDS = 7 * 24 * 3600
_PER_ZONE = ("minNodeCount", "maxNodeCount")
_TOTAL = ("totalMinNodeCount", "totalMaxNodeCount")
_TAINT_EFFECTS = ("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")
_LABEL = re.compile(r"([a-zA-Z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_SMALLEST_DISK_GB = 10
_PODS_PER_NODE = range(8, 257)
_MOST_NODES_IN_A_ZONE = 1000


def config_of(change: Change) -> dict[str, Any]:
    """Return the node config of a pool."""
    return change.at("config") or {}


def scaling_of(change: Change) -> dict[str, Any] | None:
    """Return the autoscaling of a pool, None for one of a fixed size; a 0 is no limit."""
    scaling = change.at("autoscaling")
    return scaling if scaling and scaling.get("enabled") else None


def _reservation(change: Change) -> str:
    affinity = config_of(change).get("reservationAffinity") or {}
    return affinity.get("consumeReservationType") or "NO_RESERVATION"


def _bounds(change: Change) -> Problem:
    scaling = scaling_of(change)
    if scaling is None:
        return None
    per_zone = [scaling[key] for key in _PER_ZONE if scaling.get(key)]
    total = [scaling[key] for key in _TOTAL if scaling.get(key)]
    if per_zone and total:
        return "Cannot set both per-zone and total limits of autoscaling."
    for low, high in (_PER_ZONE, _TOTAL):
        minimum, maximum = int(scaling.get(low) or 0), int(scaling.get(high) or 0)
        if (minimum or maximum) and not 0 <= minimum <= maximum:
            return f"autoscaling: {low} ({minimum}) has to lie between 0 and {high} ({maximum})."
    if not (per_zone or total):
        return "autoscaling: the maximum number of nodes has to be 1 or more."
    policy = scaling.get("locationPolicy")
    if policy not in (None, "", "BALANCED", "ANY"):
        return f"autoscaling: location_policy has to be BALANCED or ANY, not {policy}."
    return None


def _flex_start(change: Change) -> Problem:
    if not config_of(change).get("flexStart"):
        return None
    management = change.at("management")
    if management is None or management.get("autoRepair"):
        return "flex_start requires management.auto_repair to be false"
    if scaling_of(change) is None:
        return "flex_start requires autoscaling and excludes node_count"
    return _unreserved(change, "flex_start")


def _unreserved(change: Change, what: str) -> Problem:
    if config_of(change).get("spot") or config_of(change).get("preemptible"):
        return f"{what} excludes spot and preemptible"
    if _reservation(change) != "NO_RESERVATION":
        return f"{what} requires reservation_affinity NO_RESERVATION"
    return None


def _queued(change: Change) -> Problem:
    if not change.at("queuedProvisioning.enabled"):
        return None
    scaling = scaling_of(change)
    if scaling is None or scaling.get("minNodeCount") or scaling.get("totalMinNodeCount"):
        return "queued_provisioning requires autoscaling from 0 nodes"
    if change.at("placementPolicy.type") == "COMPACT" and config_of(change).get("accelerators"):
        return "queued_provisioning with GPUs excludes COMPACT placement"
    return _unreserved(change, "queued_provisioning")


def _spot(change: Change) -> Problem:
    config = config_of(change)
    if config.get("spot") and config.get("preemptible"):
        return "Only one of spot and preemptible can be set"
    if config.get("spot") and _reservation(change) != "NO_RESERVATION":
        return "spot excludes reservations"
    return None


def _compact(change: Change) -> Problem:
    placement = change.at("placementPolicy") or {}
    if placement.get("type") != "COMPACT" and not placement.get("policyName"):
        return None
    if len(_zones_of(change)) == 1:
        return None
    return "COMPACT placement requires exactly one zone in node_locations"


def _zones_of(change: Change) -> list[str]:
    if given := change.at("locations"):
        return list(given)
    cluster = change.cloud.store.find(change.parent)
    return list(cluster.body["locations"]) if cluster else []


def _run_duration(change: Change) -> Problem:
    duration = config_of(change).get("maxRunDuration")
    if duration in (None, ""):
        return None
    longest = _LONGEST_FLEX_START_SECONDS if config_of(change).get("flexStart") else _LONGEST_RUN_SECONDS
    found = re.fullmatch(r"(\d+)s", str(duration))
    if not found or not 0 < int(found[1]) <= longest:
        return f"max_run_duration is a number of seconds such as 3600s, at most {longest}s, not {duration}"
    return None


def _max_pods(change: Change) -> Problem:
    given = change.at("maxPodsConstraint.maxPodsPerNode")
    if given is None:
        return None
    if int(given) not in _PODS_PER_NODE:
        return f"max_pods_per_node has to lie between {_PODS_PER_NODE[0]} and {_PODS_PER_NODE[-1]}"
    cluster = change.cloud.store.find(change.parent)
    if cluster is not None and not at(cluster.body, "ipAllocationPolicy.useIpAliases"):
        return "max_pods_per_node requires a VPC-native cluster"
    return None


def _labels(change: Change) -> Problem:
    for key, value in (config_of(change).get("labels") or {}).items():
        if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(str(value)):
            return f"Invalid value for node label: {key}={value}."
        if key.startswith(("kubernetes.io/", "k8s.io/")):
            return f"Node label {key} uses a reserved prefix."
    return None


def _taints(change: Change) -> Problem:
    for taint in config_of(change).get("taints") or ():
        if taint.get("effect") not in _TAINT_EFFECTS:
            return f"expected effect to be one of {list(_TAINT_EFFECTS)}, got {taint.get('effect')}"
        if not _LABEL.fullmatch(str(taint.get("key"))) or not _LABEL_VALUE.fullmatch(str(taint.get("value") or "")):
            return f"Invalid node taint: {taint.get('key')}={taint.get('value')}."
    return None


def _disk(change: Change) -> Problem:
    size = config_of(change).get("diskSizeGb")
    if size is None or int(size) >= _SMALLEST_DISK_GB:
        return None
    return f"disk_size_gb has to be {_SMALLEST_DISK_GB} or more, not {size}"


def _zones(change: Change) -> Problem:
    region = region_of(change.location)
    for place in change.at("locations") or ():
        found = ZONE.fullmatch(str(place))
        if not found or found[1] != region:
            return f"Invalid location {place}: node locations are zones of the cluster's region {region}."
    return None


def _account(change: Change) -> Problem:
    email = config_of(change).get("serviceAccount")
    ours = f"@{change.project}.iam.gserviceaccount.com"
    if not email or email == "default" or not str(email).endswith(ours):
        return None
    found = change.cloud.store.find(f"projects/{change.project}/serviceAccounts/{email}")
    return None if found else f'Service account "{email}" does not exist.'


def _accelerators(change: Change) -> Problem:
    for item in config_of(change).get("accelerators") or ():
        count = str(item.get("acceleratorCount") or "")
        if not item.get("acceleratorType") or not count.isdecimal() or int(count) < 1:
            return "accelerators: each has a type and a count of 1 or more"
    return None


def _node_count(change: Change) -> Problem:
    zones, scaling = max(1, len(_zones_of(change))), scaling_of(change) or {}
    per_zone = max(int(scaling.get("maxNodeCount") or 0), int(change.at("initialNodeCount") or 0))
    most = max(per_zone, -(-int(scaling.get("totalMaxNodeCount") or 0) // zones))
    if most <= _MOST_NODES_IN_A_ZONE:
        return None
    return f"A node pool can have at most {_MOST_NODES_IN_A_ZONE} nodes in each zone, not {most}."


POOL_RULES: Final = (
    name_pattern("gke-names-have-40-characters", NAME, NAME_PROBLEM),
    Rule("gke-1000-nodes-a-pool-and-zone", _node_count),
    Rule("gke-autoscaling-limits", _bounds),
    Rule("gke-flex-start-pools", _flex_start),
    Rule("gke-queued-provisioning-pools", _queued),
    Rule("gke-spot-excludes-reservations", _spot),
    Rule("gke-compact-placement-in-one-zone", _compact),
    Rule("gke-max-run-duration", _run_duration),
    Rule("gke-8-to-256-pods-a-node", _max_pods),
    Rule("gke-node-labels", _labels),
    Rule("gke-node-taints", _taints),
    Rule("gke-disks-of-10-gb", _disk),
    Rule("gke-zones-of-the-region", _zones),
    Rule("gke-node-account-exists", _account),
    Rule("gke-accelerators-have-type-and-count", _accelerators),
    key_use("compute", "config.bootDiskKmsKey"),
)
