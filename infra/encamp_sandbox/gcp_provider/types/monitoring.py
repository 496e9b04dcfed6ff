"""Notification channels, alert policies and dashboards, which the server names.

Source: hashicorp/terraform-provider-google-beta google-beta/services/monitoring.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, Made, ResourceType

if TYPE_CHECKING:
    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_OWN = frozenset({"project", "deletionPolicy"})

CHANNEL: Final = ResourceType(
    "gcp:monitoring/notificationChannel:NotificationChannel",
    "monitoring/v3",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/notificationChannels",
    TypeMapping(own=_OWN | {"forceDelete"}, kept=frozenset({"sensitiveLabels"})),
    short_name=lambda _inputs: None,
    change=Change.MASK,
    fixed_name=False,
)

ALERT_POLICY: Final = ResourceType(
    "gcp:monitoring/alertPolicy:AlertPolicy",
    "monitoring/v3",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/alertPolicies",
    TypeMapping(own=_OWN),
    short_name=lambda _inputs: None,
    show=lambda answer, _inputs, _context: {"creationRecords": [answer["creationRecord"]]},
    change=Change.MASK,
    fixed_name=False,
)


class _Dashboards(ResourceType):
    """Dashboards are JSON that a program writes whole."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the dashboard."""
        path = self.path(self.collection(inputs, context))
        answer = await context.rest.call("POST", path, context.patience, body=json.loads(inputs["dashboardJson"]))
        return self.made(str(answer["name"]), answer, inputs, context)

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Replace the dashboard, with the etag of the present one."""
        del changed
        path = self.path(made.resource_id)
        present = await context.rest.call("GET", path, context.patience)
        body = {**json.loads(inputs["dashboardJson"]), "etag": present["etag"]}
        answer = await context.rest.call("PATCH", path, context.patience, body=body)
        return self.made(made.resource_id, answer, inputs, context)

    def outputs(self, answer: Body, inputs: Properties, context: Context) -> Properties:
        """Return the dashboard without what the server adds."""
        shown = {key: value for key, value in answer.items() if key not in ("etag", "name")}
        return {**inputs, "project": context.project_of(inputs), "dashboardJson": json.dumps(shown, sort_keys=True)}


def _valid(inputs: Properties) -> list[tuple[str, str]]:
    text = inputs.get("dashboardJson")
    if not isinstance(text, str):
        return []
    try:
        json.loads(text)
    except ValueError as error:
        return [("dashboardJson", f'"dashboard_json" contains an invalid JSON: {error}')]
    return []


def _same_board(old: Any, new: Any) -> bool:
    """Whether two texts are the same dashboard, whatever the server has added to one of them."""
    try:
        boards = [json.loads(str(text)) for text in (old, new)]
    except ValueError:
        return False
    for board in boards:
        for key in ("etag", "name"):
            board.pop(key, None)
    return boards[0] == boards[1]


DASHBOARD: Final = _Dashboards(
    "gcp:monitoring/dashboard:Dashboard",
    "monitoring/v1",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/dashboards",
    short_name=lambda _inputs: None,
    suppress={"dashboardJson": _same_board},
    checks=_valid,
    fixed_name=False,
)

MONITORING_TYPES: Final = (CHANNEL, ALERT_POLICY, DASHBOARD)
