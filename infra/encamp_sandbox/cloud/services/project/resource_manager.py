"""Resource Manager (v1 and v3): the one project and its policy.

Source: cloud.google.com/resource-manager/reference/rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.iam.methods import policy_routes
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.routes import Route

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask

_ONE = "projects/{project}"


async def _project(ask: Ask) -> dict[str, Any]:
    ask.require("resourcemanager.projects.get")
    cloud = ask.cloud
    if ask.call.plain[0] == "v3":
        named = {"name": f"projects/{cloud.number}", "displayName": cloud.project, "state": "ACTIVE"}
        return {"projectId": cloud.project, **named}
    return {
        "projectNumber": cloud.number,
        "projectId": cloud.project,
        "name": cloud.project,
        "lifecycleState": "ACTIVE",
        "createTime": "2020-01-01T00:00:00.000Z",
    }


def resource_manager(cloud: Cloud) -> Api:
    """Serve cloudresourcemanager.googleapis.com."""
    policies = policy_routes(_ONE, "resourcemanager.projects", lambda ask: f"projects/{ask.cloud.project}")
    return Api(cloud, "cloudresourcemanager", ("v1", "v3"), (), (Route(_ONE, ("GET",), _project), *policies))
