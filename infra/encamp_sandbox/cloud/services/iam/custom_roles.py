"""Custom roles of a project. A deleted one keeps its id for weeks, and can be taken back.

Source: cloud.google.com/iam/docs/reference/rest/v1/projects.roles, cloud.google.com/iam/docs/creating-custom-roles.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError, failed_precondition
from encamp_sandbox.cloud.rest.collection import Body, Collection, Update
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule, choice, name_pattern
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import default

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_PERMISSION = re.compile(r"[a-z][a-z0-9]*\.[A-Za-z0-9]+\.[A-Za-z0-9]+")
#: Permissions that a role of a project may not hold, because a project has no such resource.
_ABOVE_PROJECTS = ("resourcemanager.folders.", "resourcemanager.organizations.", "resourcemanager.projects.list")
_MOST_PERMISSIONS = 3000
_LONGEST_TITLE = 100
_STAGES = ("ALPHA", "BETA", "GA", "DEPRECATED", "DISABLED", "EAP")


def _identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
    del ask
    if not body.get("roleId"):
        raise GoogleError(400, "The role_id is required.", reason="required")
    return str(body["roleId"]), dict(body.get("role") or {})


def _title(change: Change) -> Problem:
    return None if len(str(change.at("title") or "")) in range(1, _LONGEST_TITLE + 1) else "must be 1 to 100 characters"


def _permissions(change: Change) -> Problem:
    held = change.at("includedPermissions") or []
    if not held:
        return "a custom role holds at least one permission"
    if len(held) > _MOST_PERMISSIONS:
        return f"a custom role holds at most {_MOST_PERMISSIONS} permissions"
    for permission in held:
        if not _PERMISSION.fullmatch(str(permission)):
            return f"Permission {permission} is not valid."
        if str(permission).startswith(_ABOVE_PROJECTS):
            return f"Permission {permission} is not supported in custom roles at the project level."
    return None


def _delete(role: CloudResource, cloud: Cloud) -> None:
    if role.body.get("deleted"):
        raise failed_precondition(f"You can't delete role_id ({role.short_name}) since it is already deleted.")
    cloud.store.merge(role.name, {"deleted": True})


class _Roles(Collection):
    """Roles; a create under the id of a deleted one is refused, too."""

    def shown(self, resource: CloudResource, cloud: Cloud) -> Body:
        """Return a role; one that is not deleted does not say so."""
        shown = super().shown(resource, cloud)
        return shown if shown.get("deleted") else {key: value for key, value in shown.items() if key != "deleted"}


ROLES: Final = _Roles(
    kind="role",
    path="projects/{project}/roles",
    style=Plain(etag=True),
    permission="iam.roles",
    identify=_identify,
    rules=(
        name_pattern(
            "iam-role-ids", r"[A-Za-z0-9_.]{3,64}", '"role_id" ("{value}") must be 3 to 64 letters, digits, _ and .'
        ),
        Rule("iam-role-titles", _title),
        choice("iam-role-stages", "stage", _STAGES),
        Rule("iam-role-permissions", _permissions),
    ),
    fill=lambda change: default(change.body, {"stage": "GA"}),
    update=Update.MASK,
    deleted=_delete,
)


async def _undelete(ask: Ask) -> dict[str, Any]:
    ask.require("iam.roles.undelete", ask.name)
    role = ROLES.find(ask.name, ask.cloud)
    return ROLES.shown(ask.cloud.store.merge(role.name, {"deleted": False}), ask.cloud)


ROLE_METHODS: Final = (
    Route("projects/{project}/roles/{role}", ("POST",), _undelete, verb="undelete", operation="create"),
)
