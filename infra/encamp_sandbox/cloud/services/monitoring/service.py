"""Cloud Monitoring: its configuration; the server names everything.

Sources: cloud.google.com/monitoring/api/ref_v3/rest/v3 (projects.notificationChannels, projects.alertPolicies),
cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.collection import Collection, Update, named_by_server
from encamp_sandbox.cloud.rest.rules import Rule, choice, labels
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import default, short
from encamp_sandbox.cloud.services.monitoring.condition_rules import CONDITION_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

#: Required fields of a channel of each type, beside its secrets (projects.notificationChannelDescriptors).
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
_CHANNEL = re.compile(r"projects/[^/]+/notificationChannels/[0-9]+")
_MOST_COLUMNS = 48
_LAYOUTS = ("mosaicLayout", "gridLayout", "rowLayout", "columnLayout")


def _number() -> str:
    return str(10**18 + secrets.randbelow(9 * 10**18))


def _channel_labels(change: Change) -> Problem:
    wanted = _CHANNEL_LABELS.get(str(change.at("type")))
    if wanted is None:
        return f"'{change.at('type')}' is no type of notification channels; there are {', '.join(_CHANNEL_LABELS)}"
    named = change.at("labels") or {}
    missing = [label for label in wanted if not named.get(label)]
    return f"Field \"notification_channel.labels['{missing[0]}']\" is required but missing" if missing else None


def _channel_users(channel: CloudResource, cloud: Cloud) -> list[str]:
    return [
        policy.name
        for policy in cloud.store.all_of("alertPolicy")
        if channel.name in (policy.body.get("notificationChannels") or ())
    ]


CHANNELS: Final = Collection(
    kind="notificationChannel",
    path="projects/{project}/notificationChannels",
    style=Plain(),
    permission="monitoring.notificationChannels",
    identify=named_by_server,
    new_id=_number,
    rules=(labels("userLabels"), Rule("channel-labels", _channel_labels)),
    fill=lambda change: default(change.body, {"enabled": True}),
    users=_channel_users,
    update=Update.MASK,
)


def _channel_form(change: Change) -> Problem:
    for channel in change.at("notificationChannels") or ():
        if not _CHANNEL.fullmatch(str(channel)):
            return f"'{channel}' is no full name of a notification channel"
    return None


def _channels_of(change: Change) -> Iterable[str]:
    for channel in change.at("notificationChannels") or ():
        if _CHANNEL.fullmatch(str(channel)):
            yield f"projects/{change.project}/notificationChannels/{short(channel)}"


def _fill_policy(change: Change) -> None:
    default(change.body, {"enabled": True, "creationRecord": {"mutateTime": "2026-01-01T00:00:00Z"}})
    for condition in change.at("conditions") or ():
        condition.setdefault("name", f"{change.name}/conditions/{_number()}")


ALERT_POLICIES: Final = Collection(
    kind="alertPolicy",
    path="projects/{project}/alertPolicies",
    style=Plain(),
    permission="monitoring.alertPolicies",
    identify=named_by_server,
    new_id=_number,
    rules=(
        labels("userLabels"),
        choice("alert-combiners", "combiner", ("AND", "OR", "AND_WITH_MATCHING_RESOURCE")),
        choice("alert-severities", "severity", ("CRITICAL", "ERROR", "WARNING")),
        Rule("alert-names-channels", _channel_form),
        *CONDITION_RULES,
    ),
    needs=_channels_of,
    fill=_fill_policy,
    mend=_fill_policy,
    update=Update.MASK,
)


def _dashboard(change: Change) -> Problem:
    board = change.body
    if not board.get("displayName"):
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


class _Dashboards(Plain):
    """Dashboards name the project by its number, and an update needs the etag of the present version."""

    ignored = ("name",)

    def decorate(self, resource: CloudResource, cloud: Cloud) -> dict[str, Any]:
        """Name and etag."""
        return {"name": f"projects/{cloud.number}/dashboards/{resource.short_name}", "etag": resource.etag}


DASHBOARDS: Final = Collection(
    kind="dashboard",
    path="projects/{project}/dashboards",
    style=_Dashboards(etag=True),
    permission="monitoring.dashboards",
    identify=named_by_server,
    new_id=lambda: str(uuid4()),
    rules=(Rule("dashboard-layouts", _dashboard),),
    update=Update.REPLACE,
)


def monitoring(cloud: Cloud) -> Api:
    """Serve monitoring.googleapis.com."""
    return Api(cloud, "monitoring", ("v3", "v1"), (CHANNELS, ALERT_POLICIES, DASHBOARDS))
