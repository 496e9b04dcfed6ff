"""What GKE refuses of a node pool.

Several rules are not in the API's reference but in what Google's own modules check before they call it:
GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool/main.tf, lifecycle preconditions (``_TOOLKIT``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.model import Rule, short

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_TOOLKIT = "github.com/GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool/main.tf (preconditions)"
_REFERENCE = "cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools"
_QUEUED = "cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest"
_MAX_RUN = "cloud.google.com/compute/docs/instances/limit-vm-runtime"
_LONGEST_RUN_SECONDS = 120 * 24 * 3600
_LONGEST_FLEX_START_SECONDS = 7 * 24 * 3600
_PER_ZONE = ("minNodeCount", "maxNodeCount")
_TOTAL = ("totalMinNodeCount", "totalMaxNodeCount")
_TAINT_EFFECTS = ("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")
_LABEL = re.compile(r"([a-zA-Z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_ZONE = re.compile(r"([a-z]+-[a-z]+\d+)-[a-z]")
_SMALLEST_DISK_GB = 10
_PODS_PER_NODE = range(8, 257)


def _config(inputs: Properties) -> dict[str, Any]:
    return inputs.get("nodeConfig") or {}


def _autoscaling(inputs: Properties) -> dict[str, Any] | None:
    return inputs.get("autoscaling")


def _queued(inputs: Properties) -> bool:
    return bool((inputs.get("queuedProvisioning") or {}).get("enabled"))


def _reservation(inputs: Properties) -> str:
    affinity = _config(inputs).get("reservationAffinity") or {}
    return affinity.get("consumeReservationType") or "NO_RESERVATION"


def _scaling(inputs: Properties, _: Context) -> Problem:
    if _autoscaling(inputs) is not None and inputs.get("nodeCount") is not None:
        return "a node pool is either of a fixed size (node_count) or autoscaled (autoscaling), not both"
    return None


def _bounds(inputs: Properties, _: Context) -> Problem:
    scaling = _autoscaling(inputs)
    if scaling is None:
        return None
    per_zone = [scaling[key] for key in _PER_ZONE if scaling.get(key) is not None]
    total = [scaling[key] for key in _TOTAL if scaling.get(key) is not None]
    if per_zone and total:
        return "Cannot set both per-zone and total limits of autoscaling."
    for low, high in (_PER_ZONE, _TOTAL):
        minimum, maximum = scaling.get(low) or 0, scaling.get(high)
        if maximum is not None and not 0 <= minimum <= maximum:
            return f"autoscaling: {low} ({minimum}) has to lie between 0 and {high} ({maximum})."
    if not (scaling.get("maxNodeCount") or scaling.get("totalMaxNodeCount")):
        return "autoscaling: the maximum number of nodes has to be 1 or more."
    policy = scaling.get("locationPolicy")
    if policy not in (None, "BALANCED", "ANY"):
        return f"autoscaling: location_policy has to be BALANCED or ANY, not {policy}."
    return None


def _flex_start(inputs: Properties, _: Context) -> Problem:
    if not _config(inputs).get("flexStart"):
        return None
    if (inputs.get("management") or {}).get("autoRepair", True):
        return "flex_start requires management.auto_repair to be false"
    if inputs.get("nodeCount") is not None or _autoscaling(inputs) is None:
        return "flex_start requires autoscaling and excludes node_count"
    return _unreserved(inputs, "flex_start")


def _unreserved(inputs: Properties, what: str) -> Problem:
    if _config(inputs).get("spot") or _config(inputs).get("preemptible"):
        return f"{what} excludes spot and preemptible"
    if _reservation(inputs) != "NO_RESERVATION":
        return f"{what} requires reservation_affinity NO_RESERVATION"
    return None


def _queued_provisioning(inputs: Properties, _: Context) -> Problem:
    if not _queued(inputs):
        return None
    scaling = _autoscaling(inputs)
    if scaling is None or (scaling.get("minNodeCount") or 0) or (scaling.get("totalMinNodeCount") or 0):
        return "queued_provisioning requires autoscaling from 0 nodes"
    placement = (inputs.get("placementPolicy") or {}).get("type")
    if placement == "COMPACT" and _config(inputs).get("guestAccelerators"):
        return "queued_provisioning with GPUs excludes COMPACT placement"
    return _unreserved(inputs, "queued_provisioning")


def _spot(inputs: Properties, _: Context) -> Problem:
    config = _config(inputs)
    if config.get("spot") and config.get("preemptible"):
        return "Only one of spot and preemptible can be set"
    if config.get("spot") and _reservation(inputs) != "NO_RESERVATION":
        return "spot excludes reservations"
    return None


def _compact(inputs: Properties, context: Context) -> Problem:
    placement = inputs.get("placementPolicy") or {}
    if placement.get("type") != "COMPACT" and not placement.get("policyName"):
        return None
    zones = inputs.get("nodeLocations") or []
    location = str(inputs.get("location") or context.zone or "")
    if len(zones) == 1 or (not zones and _ZONE.fullmatch(location)):
        return None
    return "COMPACT placement requires exactly one zone in node_locations"


def _run_duration(inputs: Properties, _: Context) -> Problem:
    duration = _config(inputs).get("maxRunDuration")
    if duration in (None, ""):
        return None
    longest = _LONGEST_FLEX_START_SECONDS if _config(inputs).get("flexStart") else _LONGEST_RUN_SECONDS
    found = re.fullmatch(r"(\d+)s", str(duration))
    if not found or not 0 < int(found[1]) <= longest:
        return f"max_run_duration is a number of seconds such as 3600s, at most {longest}s, not {duration}"
    return None


def _max_pods(inputs: Properties, context: Context) -> Problem:
    pods = inputs.get("maxPodsPerNode")
    if pods is None:
        return None
    if pods not in _PODS_PER_NODE:
        return f"max_pods_per_node has to lie between {_PODS_PER_NODE[0]} and {_PODS_PER_NODE[-1]}"
    for cluster in context.cloud.store.all_of("cluster"):
        given = cluster.body["inputs"]
        routes = given.get("networkingMode") == "ROUTES"
        if cluster.short_name == short(inputs["cluster"]) and routes:
            return "max_pods_per_node requires a VPC-native cluster"
    return None


def _labels(inputs: Properties, _: Context) -> Problem:
    for key, value in (_config(inputs).get("labels") or {}).items():
        if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(str(value)):
            return f"Invalid value for node label: {key}={value}."
        if key.startswith(("kubernetes.io/", "k8s.io/")):
            return f"Node label {key} uses a reserved prefix."
    return None


def _taints(inputs: Properties, _: Context) -> Problem:
    for taint in _config(inputs).get("taints") or ():
        if taint.get("effect") not in _TAINT_EFFECTS:
            return f"expected effect to be one of {list(_TAINT_EFFECTS)}, got {taint.get('effect')}"
        if not _LABEL.fullmatch(str(taint.get("key"))) or not _LABEL_VALUE.fullmatch(str(taint.get("value") or "")):
            return f"Invalid node taint: {taint.get('key')}={taint.get('value')}."
    return None


def _disk(inputs: Properties, _: Context) -> Problem:
    size = _config(inputs).get("diskSizeGb")
    if size is None or size >= _SMALLEST_DISK_GB:
        return None
    return f"disk_size_gb has to be {_SMALLEST_DISK_GB} or more, not {size}"


def _zones(inputs: Properties, context: Context) -> Problem:
    location = str(inputs.get("location") or context.zone or context.region or "")
    zone = _ZONE.fullmatch(location)
    region = zone[1] if zone else location
    for place in inputs.get("nodeLocations") or ():
        found = _ZONE.fullmatch(str(place))
        if not found or (region and "/" not in str(inputs.get("cluster")) and found[1] != region):
            return f"Invalid location {place}: node locations are zones of the cluster's region {region}."
    return None


def _account(inputs: Properties, context: Context) -> Problem:
    email = _config(inputs).get("serviceAccount")
    ours = f"@{context.project}.iam.gserviceaccount.com"
    if not email or email == "default" or not str(email).endswith(ours):
        return None
    found = context.cloud.store.find(f"projects/{context.project}/serviceAccounts/{email}")
    return None if found else f'Service account "{email}" does not exist.'


def _accelerators(inputs: Properties, _: Context) -> Problem:
    for item in _config(inputs).get("guestAccelerators") or ():
        if not item.get("type") or not isinstance(item.get("count"), int) or item["count"] < 1:
            return "guest_accelerators: each has a type and a count of 1 or more"
    return None


def _rule(name: str, source: str, reads: tuple[str, ...], test: Any, *, api: bool = False) -> Rule:
    return Rule(name, source, reads, test, api=api)


_C = "nodeConfig"
POOL_RULES: Final = (
    _rule("static or autoscaled", _TOOLKIT, ("autoscaling", "nodeCount"), _scaling),
    _rule("autoscaling bounds", _REFERENCE + "#NodePoolAutoscaling", ("autoscaling",), _bounds),
    _rule("flex-start", _TOOLKIT, (_C, "management", "nodeCount", "autoscaling"), _flex_start),
    _rule(
        "queued provisioning", _QUEUED, (_C, "queuedProvisioning", "autoscaling", "placementPolicy"),
        _queued_provisioning,
    ),
    _rule("spot", "cloud.google.com/kubernetes-engine/docs/concepts/spot-vms", (_C,), _spot, api=True),
    _rule("compact placement", _TOOLKIT, ("placementPolicy", "nodeLocations", "location"), _compact),
    _rule("run duration", f"{_MAX_RUN} (120 days), {_QUEUED} (7 days)", (_C,), _run_duration, api=True),
    _rule(
        "pods per node", "cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr",
        ("maxPodsPerNode", "cluster"), _max_pods, api=True,
    ),
    _rule("labels", _REFERENCE + "#NodeConfig.FIELDS.labels", (_C,), _labels, api=True),
    _rule("taints", _REFERENCE + "#NodeTaint", (_C,), _taints),
    _rule("disk", _REFERENCE + "#NodeConfig", (_C,), _disk),
    _rule("zones", _REFERENCE + "#NodePool", ("nodeLocations", "location", "cluster"), _zones, api=True),
    _rule("service account", _REFERENCE + "#NodeConfig", (_C,), _account, api=True),
    _rule("accelerators", _REFERENCE + "#AcceleratorConfig", (_C,), _accelerators),
)  # fmt: skip
