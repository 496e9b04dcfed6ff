"""GKE's rules for a cluster."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.rules import Rule, choice, labels, name_pattern
from encamp_sandbox.cloud.rest.values import short
from encamp_sandbox.cloud.services.container.pool_rules import NAME, NAME_PROBLEM
from encamp_sandbox.cloud.services.container.zones import LOCATION
from encamp_sandbox.cloud.services.kms.use import key_use

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change, Problem

_METRICS = (
    "SYSTEM_COMPONENTS", "APISERVER", "SCHEDULER", "CONTROLLER_MANAGER", "STORAGE", "HPA", "POD", "DAEMONSET",
    "DEPLOYMENT", "STATEFULSET", "WORKLOADS", "KUBELET", "CADVISOR", "DCGM", "JOBSET",
)  # fmt: skip
_LOGS = ("SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER", "SCHEDULER", "CONTROLLER_MANAGER", "KCP_VPA")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_CONTROL_PLANE_PREFIX = 28
_SHORTEST_WINDOW = timedelta(hours=4)
_IP = "controlPlaneEndpointsConfig.ipEndpointsConfig"


def _only_one(change: Change) -> Problem:
    others = [one for one in change.cloud.store.all_of("cluster") if one.name != change.name]
    if not others:
        return None
    return (
        "Insufficient quota to satisfy the request: the sandbox has one control plane, "
        f"and the cluster {others[0].short_name} has it."
    )


def _node_count(change: Change) -> Problem:
    if change.before is not None or change.at("initialNodeCount") or change.at("nodePools"):
        return None
    return "Cluster.initial_node_count must be greater than zero."


def _autopilot(change: Change) -> Problem:
    return "the sandbox has Standard clusters only, no Autopilot" if change.at("autopilot.enabled") else None


def _location(change: Change) -> Problem:
    return None if LOCATION.fullmatch(change.location) else f"Location '{change.location}' is no region and no zone."


def _workload_pool(change: Change) -> Problem:
    pool = change.at("workloadIdentityConfig.workloadPool")
    wanted = f"{change.project}.svc.id.goog"
    if pool in (None, "", wanted):
        return None
    return f"Currently, the only supported workload pool is {wanted}, got {pool}."


def _secondary_ranges(change: Change) -> Problem:
    policy, subnet = change.at("ipAllocationPolicy") or {}, change.at("subnetwork")
    wanted = [policy[key] for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName") if policy.get(key)]
    if not wanted or not subnet or change.before is not None:
        return None
    for item in change.cloud.store.all_of("subnetwork"):
        if item.short_name == short(subnet):
            known = {part.get("rangeName") for part in item.body.get("secondaryIpRanges") or ()}
            missing = [name for name in wanted if name not in known]
            return f'secondary range "{missing[0]}" does not exist in network' if missing else None
    return None


def _control_plane_range(change: Change) -> Problem:
    given = change.at("privateClusterConfig.masterIpv4CidrBlock")
    if not given:
        return None
    try:
        block = ipaddress.IPv4Network(str(given))
    except ValueError:
        return f"masterIpv4CidrBlock '{given}' is no range of IPv4 addresses."
    if block.prefixlen != _CONTROL_PLANE_PREFIX or not block.is_private:
        return f"masterIpv4CidrBlock '{given}' must be a private range of size /{_CONTROL_PLANE_PREFIX}."
    return None


def _listed(change: Change) -> dict[str, Any]:
    return change.at(f"{_IP}.authorizedNetworksConfig") or change.at("masterAuthorizedNetworksConfig") or {}


def _private_endpoint(change: Change) -> Problem:
    by_endpoints = change.at(f"{_IP}.enablePublicEndpoint") is False
    private = by_endpoints or change.at("privateClusterConfig.enablePrivateEndpoint")
    if private and not _listed(change).get("enabled"):
        return "Private endpoint requires master authorized networks to be enabled."
    return None


def _authorized(change: Change) -> Problem:
    for block in _listed(change).get("cidrBlocks") or ():
        given = str(block.get("cidrBlock"))
        try:
            ipaddress.IPv4Network(given)
        except ValueError as error:
            return f"masterAuthorizedNetworksConfig: '{given}' is no range of IPv4 addresses: {error}"
    return None


def _components(change: Change) -> Problem:
    for key, known in (("loggingConfig", _LOGS), ("monitoringConfig", _METRICS)):
        given = change.at(f"{key}.componentConfig.enableComponents") or ()
        unknown = [one for one in given if one not in known]
        if unknown:
            return f"expected {key}.enable_components to be of {list(known)}, got {unknown[0]}"
        if given and "SYSTEM_COMPONENTS" not in given:
            return f"{key}: SYSTEM_COMPONENTS must be enabled if any other component is."
    return None


def _window(change: Change) -> Problem:
    window = change.at("maintenancePolicy.window") or {}
    daily, recurring = window.get("dailyMaintenanceWindow"), window.get("recurringWindow")
    if daily and recurring:
        return "maintenance_policy: only one of daily_maintenance_window and recurring_window can be given"
    if daily and not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", str(daily.get("startTime"))):
        return f"daily_maintenance_window.start_time '{daily.get('startTime')}' must be HH:MM"
    return _recurring(recurring) if recurring else None


def _recurring(recurring: dict[str, Any]) -> Problem:
    window = recurring.get("window") or {}
    try:
        start, end = (datetime.fromisoformat(str(window.get(key))) for key in ("startTime", "endTime"))
        length = end - start
    except (ValueError, TypeError):
        return "recurring_window.start_time and end_time must be RFC 3339 times"
    if length < _SHORTEST_WINDOW:
        return "recurring_window must be at least 4 hours long, and end after it starts"
    if not re.match(r"FREQ=(DAILY|WEEKLY|MONTHLY)", str(recurring.get("recurrence"))):
        return f"recurring_window.recurrence '{recurring.get('recurrence')}' must be an RRULE, such as FREQ=DAILY"
    return None


def _policies(change: Change) -> Problem:
    advanced = change.at("networkConfig.datapathProvider") == "ADVANCED_DATAPATH"
    if advanced and change.at("networkPolicy.enabled"):
        return "Enabling NetworkPolicy for clusters with DatapathProvider=ADVANCED_DATAPATH is not allowed."
    return None


def _encryption(change: Change) -> Problem:
    encryption = change.at("databaseEncryption") or {}
    if encryption.get("state") != "ENCRYPTED":
        return None
    found = _KEY.fullmatch(str(encryption.get("keyName") or ""))
    if found is None:
        return f"databaseEncryption.keyName '{encryption.get('keyName') or ''}' is no name of a KMS key."
    if found["location"] != change.location:
        return f"databaseEncryption.keyName: the key must be in {change.location}, not {found['location']}."
    return None


CLUSTER_RULES: Final = (
    Rule("sandbox-one-control-plane", _only_one, code=403, reason="quotaExceeded"),
    Rule("sandbox-standard-clusters-only", _autopilot),
    name_pattern("gke-names-have-40-characters", NAME, NAME_PROBLEM),
    Rule("gke-locations-are-regions-or-zones", _location),
    labels("resourceLabels"),
    Rule("gke-clusters-begin-with-nodes", _node_count),
    Rule("gke-workload-pool-is-the-projects", _workload_pool),
    Rule("gke-secondary-ranges-exist", _secondary_ranges),
    choice("gke-release-channels", "releaseChannel.channel", ("UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED")),
    Rule("gke-observed-components", _components),
    choice(
        "gke-datapaths",
        "networkConfig.datapathProvider",
        ("DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH"),
    ),
    Rule("gke-authorized-networks", _authorized),
    Rule("gke-control-plane-range", _control_plane_range),
    Rule("gke-private-endpoint-needs-networks", _private_endpoint),
    Rule("gke-maintenance-windows", _window),
    Rule("gke-dataplane-v2-has-policies", _policies),
    Rule("gke-key-in-the-location", _encryption),
    key_use("container", "databaseEncryption.keyName"),
)
