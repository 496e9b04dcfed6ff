"""Notification channels, alert policies and dashboards, whose ids the API gives, and metrics of log entries."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT, given, labels_rule
from encamp.sandbox.cloud.gcp.condition_rules import CONDITION_RULES
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule, choice_rule, pattern_rule, short
from encamp.sandbox.cloud.gcp.stored import StoredBackend
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.gcp.stored import Namer
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_API = "cloud.google.com/monitoring/api/ref_v3/rest/v3/projects"
_CHANNELS = f"{_API}.notificationChannels"
_POLICIES = f"{_API}.alertPolicies"
_DASHBOARDS = "cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards"
_METRICS = "cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics"
#: What a channel of each type has to say, beside what it keeps secret (projects.notificationChannelDescriptors).
_CHANNEL_LABELS: Final = {
    "email": ("email_address",),
    "pubsub": ("topic",),
    "sms": ("number",),
    "slack": ("channel_name",),
    "webhook_basicauth": ("url",),
    "webhook_tokenauth": ("url",),
    "pagerduty": (),
    "google_chat": ("space",),
}
_MOST_COLUMNS = 48
_LAYOUTS = ("mosaicLayout", "gridLayout", "rowLayout", "columnLayout")
_LONGEST_FILTER = 20_000


class _GivenIdBackend(StoredBackend):
    """Keeps resources whose names the API gives: nothing is refused for being there already."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it under a new name."""
        self._check_parents(inputs, context)
        body: dict[str, Any] = {"inputs": given(inputs), "facts": {}}
        name = f"{self.full_name(inputs, context)}/{self._new_id()}"
        return self._made(context.cloud.store.create(self.kind, name, body, self._labels(inputs, context)), context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it by its name."""
        del inputs
        found = context.cloud.store.find(resource_id)
        return self._made(found, context) if found and found.kind == self.kind else None

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Replace what it says."""
        del olds
        self._check_parents(news, context)
        body = {**context.cloud.store.get(resource_id).body, "inputs": given(news)}
        return self._made(context.cloud.store.update(resource_id, body, self._labels(news, context)), context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it, unless something uses it and that is not to be changed with it."""
        found = context.cloud.store.find(resource_id)
        if found is None:
            return
        if not inputs.get("forceDelete"):
            self._check_unused(found, context)
        context.cloud.store.delete(resource_id)

    def _new_id(self) -> str:
        return str(uuid4()) if self.kind == "dashboard" else str(10**18 + secrets.randbelow(9 * 10**18))


def _collection(collection: str) -> Namer:
    def name(inputs: Properties, context: Context) -> str:
        del inputs
        return f"projects/{context.project}/{collection}"

    return name


def _channel_labels(inputs: Properties, _: Context) -> Problem:
    wanted = _CHANNEL_LABELS.get(str(inputs.get("type")))
    if wanted is None:
        return f"'{inputs.get('type')}' is no type of notification channels; there are {', '.join(_CHANNEL_LABELS)}"
    named = inputs.get("labels") or {}
    missing = [label for label in wanted if not named.get(label)]
    return f"Field \"notification_channel.labels['{missing[0]}']\" is required but missing" if missing else None


def _channel_users(channel: CloudResource, context: Context) -> list[str]:
    return [
        policy.name
        for policy in context.cloud.store.all_of("alertPolicy")
        if channel.name in (policy.body["inputs"].get("notificationChannels") or ())
    ]


def _channel_form(inputs: Properties, _: Context) -> Problem:
    for channel in inputs.get("notificationChannels") or ():
        if not re.fullmatch(r"projects/[^/]+/notificationChannels/[0-9]+", str(channel)):
            return f"'{channel}' is no full name of a notification channel"
    return None


def _dashboard(inputs: Properties, _: Context) -> Problem:
    try:
        board = json.loads(str(inputs.get("dashboardJson")))
    except ValueError as error:
        return f'"dashboard_json" contains an invalid JSON: {error}'
    if not isinstance(board, dict) or not board.get("displayName"):
        return "Field displayName is required."
    layouts = [layout for layout in _LAYOUTS if layout in board]
    if len(layouts) > 1:
        return f"a dashboard has one layout, not {' and '.join(layouts)}"
    return _mosaic(board.get("mosaicLayout") or {"columns": 1})


def _mosaic(layout: dict[str, Any]) -> Problem:
    columns = layout.get("columns") or 0
    if not 1 <= columns <= _MOST_COLUMNS:
        return f"mosaicLayout.columns must be from 1 to {_MOST_COLUMNS}, got {columns}"
    taken: set[tuple[int, int]] = set()
    for number, tile in enumerate(layout.get("tiles") or ()):
        x, y, width, height = (int(tile.get(key) or 0) for key in ("xPos", "yPos", "width", "height"))
        if not width or not height or x + width > columns:
            return f"mosaicLayout.tiles[{number}] has no size, or reaches over the last of {columns} columns"
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        if cells & taken:
            return f"mosaicLayout.tiles[{number}] overlaps another tile"
        taken |= cells
    return None


def _metric_labels(inputs: Properties, _: Context) -> Problem:
    descriptor = inputs.get("metricDescriptor") or {}
    described = {str(label.get("key")) for label in descriptor.get("labels") or ()}
    extracted = set(inputs.get("labelExtractors") or {})
    if described == extracted:
        return None
    return f"labelExtractors and metricDescriptor.labels differ in {', '.join(sorted(described ^ extracted))}"


def _metric_value(inputs: Properties, _: Context) -> Problem:
    descriptor = inputs.get("metricDescriptor") or {}
    distribution, extracted = descriptor.get("valueType") == "DISTRIBUTION", bool(inputs.get("valueExtractor"))
    if distribution != extracted:
        return "a value_extractor is required if the value type is DISTRIBUTION, and allowed only then"
    if descriptor and descriptor.get("metricKind") != "DELTA":
        return "metricDescriptor.metricKind of a metric of log entries must be DELTA"
    return None


def _extractor_form(inputs: Properties, _: Context) -> Problem:
    written = [*(inputs.get("labelExtractors") or {}).values(), inputs.get("valueExtractor")]
    bad = [one for one in written if one and not re.fullmatch(r"(REGEXP_)?EXTRACT\(.+\)", str(one))]
    return f"Invalid extractor: {bad[0]}; it is EXTRACT(field) or REGEXP_EXTRACT(field, regex)" if bad else None


def _filter(inputs: Properties, _: Context) -> Problem:
    text = str(inputs.get("filter") or "")
    return None if 0 < len(text) <= _LONGEST_FILTER else f"filter must have 1 to {_LONGEST_FILTER} characters"


NOTIFICATION_CHANNEL: Final = ResourceType(
    "gcp:monitoring/notificationChannel:NotificationChannel",
    wheel=("pulumi_gcp.monitoring", "NotificationChannel"),
    backend=_GivenIdBackend(
        kind="notificationChannel",
        full_name=_collection("notificationChannels"),
        outputs=lambda channel, _context: {"name": channel.name, "verificationStatus": ""},
        users=_channel_users,
        defaults={"enabled": True, "forceDelete": False},
    ),
    required=("type",),
    immutable=("project",),
    computed=("name", "verificationStatus"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        labels_rule("userLabels"),
        Rule("channel labels", _CHANNELS, ("type", "labels"), _channel_labels, api=True),
    ),
)

ALERT_POLICY: Final = ResourceType(
    "gcp:monitoring/alertPolicy:AlertPolicy",
    wheel=("pulumi_gcp.monitoring", "AlertPolicy"),
    backend=_GivenIdBackend(
        kind="alertPolicy",
        full_name=_collection("alertPolicies"),
        outputs=lambda policy, _context: {"name": policy.name, "creationRecords": []},
        parents=lambda inputs, context: [
            f"projects/{context.project}/notificationChannels/{short(channel)}"
            for channel in inputs.get("notificationChannels") or ()
        ],
        defaults={"enabled": True},
    ),
    required=("combiner", "conditions", "displayName"),
    immutable=("project",),
    computed=("name", "creationRecords"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        labels_rule("userLabels"),
        choice_rule("combiner", "combiner", ("AND", "OR", "AND_WITH_MATCHING_RESOURCE"), _POLICIES),
        choice_rule("severity", "severity", ("CRITICAL", "ERROR", "WARNING"), _POLICIES),
        Rule("channel names", _POLICIES, ("notificationChannels",), _channel_form, api=True),
        *CONDITION_RULES,
    ),
)

DASHBOARD: Final = ResourceType(
    "gcp:monitoring/dashboard:Dashboard",
    wheel=("pulumi_gcp.monitoring", "Dashboard"),
    backend=_GivenIdBackend(
        kind="dashboard",
        full_name=lambda _inputs, context: f"projects/{project_number(context.project)}/dashboards",
    ),
    required=("dashboardJson",),
    immutable=("project",),
    computed=(),
    rules=(PROJECT, DELETION_POLICY, Rule("layout", _DASHBOARDS, ("dashboardJson",), _dashboard, api=True)),
)

LOG_METRIC: Final = ResourceType(
    "gcp:logging/metric:Metric",
    wheel=("pulumi_gcp.logging", "Metric"),
    backend=StoredBackend(
        kind="logMetric",
        full_name=lambda inputs, context: f"projects/{context.project}/metrics/{inputs['name']}",
        identifier=lambda inputs, _context: str(inputs["name"]),
    ),
    required=("filter",),
    immutable=("name", "project", "bucketName"),
    computed=(),
    rules=(
        PROJECT,
        DELETION_POLICY,
        pattern_rule(
            "name", "name", r"[A-Za-z0-9_\-.,+!*',()%][A-Za-z0-9_\-.,+!*',()%/]{0,99}", _METRICS,
            "is no identifier of a metric: at most 100 letters, digits and _-.,+!*',()%/",
        ),
        Rule("filter", _METRICS, ("filter",), _filter, api=True),
        Rule("labels", _METRICS, ("metricDescriptor", "labelExtractors"), _metric_labels, api=True),
        Rule("value", _METRICS, ("metricDescriptor", "valueExtractor"), _metric_value, api=True),
        Rule("extractors", _METRICS, ("labelExtractors", "valueExtractor"), _extractor_form, api=True),
    ),
    autoname="name",
)  # fmt: skip

MONITORING_TYPES: Final = (NOTIFICATION_CHANNEL, ALERT_POLICY, DASHBOARD, LOG_METRIC)
