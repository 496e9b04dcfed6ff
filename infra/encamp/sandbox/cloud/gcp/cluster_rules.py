"""What GKE refuses of a cluster beside its name and its pools."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.model import Rule

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_CLUSTERS = "cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters"
_ISOLATION = "cloud.google.com/kubernetes-engine/docs/how-to/legacy/network-isolation"
_WINDOWS = "cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions"
_DATAPATH = "cloud.google.com/kubernetes-engine/docs/concepts/dataplane-v2#limitations"
_ENCRYPTION = "cloud.google.com/kubernetes-engine/docs/how-to/encrypting-secrets"
_PROVIDER = "github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r/container_cluster.html.markdown"

_CHANNELS = ("UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED")
_DATAPATHS = ("DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH")
_METRICS = (
    "SYSTEM_COMPONENTS", "APISERVER", "SCHEDULER", "CONTROLLER_MANAGER", "STORAGE", "HPA", "POD", "DAEMONSET",
    "DEPLOYMENT", "STATEFULSET", "WORKLOADS", "KUBELET", "CADVISOR", "DCGM", "JOBSET",
)  # fmt: skip
_LOGS = ("SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER", "SCHEDULER", "CONTROLLER_MANAGER", "KCP_VPA")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_CONTROL_PLANE_PREFIX = 28
_SHORTEST_WINDOW = timedelta(hours=4)


def _private(inputs: Properties) -> dict[str, Any]:
    return inputs.get("privateClusterConfig") or {}


def _control_plane_range(inputs: Properties, _: Context) -> Problem:
    given = _private(inputs).get("masterIpv4CidrBlock")
    if not given:
        return None
    try:
        block = ipaddress.IPv4Network(str(given))
    except ValueError:
        return f"masterIpv4CidrBlock '{given}' is no range of IPv4 addresses."
    if block.prefixlen != _CONTROL_PLANE_PREFIX or not block.is_private:
        return f"masterIpv4CidrBlock '{given}' must be a private range of size /{_CONTROL_PLANE_PREFIX}."
    return None


def _private_endpoint(inputs: Properties, _: Context) -> Problem:
    private = _private(inputs)
    if private.get("enablePrivateEndpoint") and inputs.get("masterAuthorizedNetworksConfig") is None:
        return "Private endpoint requires master authorized networks to be enabled."
    return None


def _authorized(inputs: Properties, _: Context) -> Problem:
    for block in (inputs.get("masterAuthorizedNetworksConfig") or {}).get("cidrBlocks") or ():
        given = str(block.get("cidrBlock"))
        try:
            ipaddress.IPv4Network(given)
        except ValueError as error:
            return f"masterAuthorizedNetworksConfig: '{given}' is no range of IPv4 addresses: {error}"
    return None


def _channel(inputs: Properties, _: Context) -> Problem:
    channel = (inputs.get("releaseChannel") or {}).get("channel")
    if channel is None or channel in _CHANNELS:
        return None
    return f"expected release_channel.channel to be one of {list(_CHANNELS)}, got {channel}"


def _components(inputs: Properties, _: Context) -> Problem:
    for key, known in (("loggingConfig", _LOGS), ("monitoringConfig", _METRICS)):
        given = (inputs.get(key) or {}).get("enableComponents") or ()
        unknown = [one for one in given if one not in known]
        if unknown:
            return f"expected {key}.enable_components to be of {list(known)}, got {unknown[0]}"
        if given and "SYSTEM_COMPONENTS" not in given:
            return f"{key}: SYSTEM_COMPONENTS must be enabled if any other component is."
    return None


def _window(inputs: Properties, _: Context) -> Problem:
    policy = inputs.get("maintenancePolicy") or {}
    daily, recurring = policy.get("dailyMaintenanceWindow"), policy.get("recurringWindow")
    if daily and recurring:
        return "maintenance_policy: only one of daily_maintenance_window and recurring_window can be given"
    if daily and not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", str(daily.get("startTime"))):
        return f"daily_maintenance_window.start_time '{daily.get('startTime')}' must be HH:MM"
    return _recurring(recurring) if recurring else None


def _recurring(recurring: dict[str, Any]) -> Problem:
    try:
        start, end = (datetime.fromisoformat(str(recurring.get(key))) for key in ("startTime", "endTime"))
        length = end - start
    except (ValueError, TypeError):
        return "recurring_window.start_time and end_time must be RFC 3339 times"
    if length < _SHORTEST_WINDOW:
        return "recurring_window must be at least 4 hours long, and end after it starts"
    if not re.match(r"FREQ=(DAILY|WEEKLY|MONTHLY)", str(recurring.get("recurrence"))):
        return f"recurring_window.recurrence '{recurring.get('recurrence')}' must be an RRULE, such as FREQ=DAILY"
    return None


def _datapath(inputs: Properties, _: Context) -> Problem:
    given = inputs.get("datapathProvider")
    if given is not None and given not in _DATAPATHS:
        return f"expected datapath_provider to be one of {list(_DATAPATHS)}, got {given}"
    return None


def _policies(inputs: Properties, _: Context) -> Problem:
    if inputs.get("datapathProvider") == "ADVANCED_DATAPATH" and (inputs.get("networkPolicy") or {}).get("enabled"):
        return "Enabling NetworkPolicy for clusters with DatapathProvider=ADVANCED_DATAPATH is not allowed."
    return None


def _encryption(inputs: Properties, context: Context) -> Problem:
    encryption = inputs.get("databaseEncryption") or {}
    if encryption.get("state") != "ENCRYPTED":
        return None
    found = _KEY.fullmatch(str(encryption.get("keyName") or ""))
    if found is None:
        return f"databaseEncryption.keyName '{encryption.get('keyName') or ''}' is no name of a KMS key."
    if found["location"] != context.location_of(inputs):
        return f"databaseEncryption.keyName: the key must be in {context.location_of(inputs)}, not {found['location']}."
    return None


CLUSTER_RULES: Final = (
    Rule("release channel", f"{_CLUSTERS}#ReleaseChannel", ("releaseChannel",), _channel),
    Rule("components", _PROVIDER, ("loggingConfig", "monitoringConfig"), _components),
    Rule("datapath", f"{_CLUSTERS}#DatapathProvider", ("datapathProvider",), _datapath),
    Rule("authorized networks", f"{_CLUSTERS}#CidrBlock", ("masterAuthorizedNetworksConfig",), _authorized),
    Rule("control plane range", _ISOLATION, ("privateClusterConfig",), _control_plane_range, api=True),
    Rule(
        "private endpoint", _ISOLATION, ("privateClusterConfig", "masterAuthorizedNetworksConfig"), _private_endpoint,
        api=True,
    ),
    Rule("maintenance window", _WINDOWS, ("maintenancePolicy",), _window, api=True),
    Rule("network policy", _DATAPATH, ("datapathProvider", "networkPolicy"), _policies, api=True),
    Rule("encryption", _ENCRYPTION, ("databaseEncryption", "location"), _encryption, api=True),
)  # fmt: skip
