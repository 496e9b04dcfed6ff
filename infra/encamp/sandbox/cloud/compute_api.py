"""The Compute Engine API (v1) as far as jobs have anything there: resource policies, and a region's quotas.

A policy that a node pool is placed by cannot be deleted, as at Google. Source:
cloud.google.com/compute/docs/reference/rest/v1/resourcePolicies.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp.sandbox.cloud.calls import no_such_method, page
from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.gcp.policy_types import policy_users
from encamp.sandbox.cloud.project_api import regional_quotas
from encamp.sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp.sandbox.cloud.access import Access
    from encamp.sandbox.cloud.calls import Call
    from encamp.sandbox.cloud.store import CloudResource, CloudStore

_ROOT = "https://www.googleapis.com/compute/v1"
_KIND = "resourcePolicy"
_SHOWN = ("description", "workloadPolicy", "groupPlacementPolicy", "snapshotSchedulePolicy", "instanceSchedulePolicy")


class ComputeApi:
    """Serves compute.googleapis.com."""

    def __init__(self, store: CloudStore, access: Access) -> None:
        self._store = store
        self._access = access

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        match call.method, call.plain:
            case "GET", ("compute", "v1", "projects", _, "regions", region):
                self._access.require(call.principal, "compute.regions.get")
                quotas = regional_quotas(self._store, region)
                return JSONResponse({"kind": "compute#region", "name": region, "status": "UP", "quotas": quotas})
            case "GET", ("compute", "v1", "projects", project, "aggregated", "resourcePolicies"):
                return JSONResponse(self._aggregated(call, f"projects/{project}"))
            case "GET", ("compute", "v1", "projects", project, "regions", region, "resourcePolicies"):
                return JSONResponse(self._list(call, f"projects/{project}/regions/{region}"))
            case "GET", ("compute", "v1", "projects", project, "regions", region, "resourcePolicies", name):
                self._access.require(call.principal, "compute.resourcePolicies.get")
                found = self._store.get(f"projects/{project}/regions/{region}/resourcePolicies/{name}")
                return JSONResponse(_shown(found))
            case "DELETE", ("compute", "v1", "projects", project, "regions", region, "resourcePolicies", name):
                self._access.require(call.principal, "compute.resourcePolicies.delete")
                return JSONResponse(self._delete(f"projects/{project}/regions/{region}", name))
        raise no_such_method(call)

    def _list(self, call: Call, parent: str) -> dict[str, Any]:
        self._access.require(call.principal, "compute.resourcePolicies.list")
        items, token = page(self._store.all_of(_KIND, parent), call.query, "maxResults")
        answer: dict[str, Any] = {
            "kind": "compute#resourcePolicyList",
            "selfLink": f"{_ROOT}/{parent}/resourcePolicies",
        }
        if items:
            answer["items"] = [_shown(item) for item in items]
        return {**answer, "nextPageToken": token} if token else answer

    def _aggregated(self, call: Call, project: str) -> dict[str, Any]:
        self._access.require(call.principal, "compute.resourcePolicies.list")
        items, token = page(self._store.all_of(_KIND, project), call.query, "maxResults")
        scopes: dict[str, dict[str, Any]] = {}
        for item in items:
            scope = scopes.setdefault(f"regions/{_region(item)}", {"resourcePolicies": []})
            scope["resourcePolicies"].append(_shown(item))
        answer: dict[str, Any] = {"kind": "compute#resourcePolicyAggregatedList", "items": scopes}
        return {**answer, "nextPageToken": token} if token else answer

    def _delete(self, parent: str, name: str) -> dict[str, Any]:
        full = f"{parent}/resourcePolicies/{name}"
        policy = self._store.get(full)
        users = policy_users(self._store, policy)
        if users:
            message = f"The resource_policy resource '{full}' is already being used by '{users[0]}'"
            raise GoogleError(400, message, reason="resourceInUseByAnotherResource")
        self._store.delete(full)
        moment = timestamp()
        operation = f"operation-{secrets.token_hex(8)}"
        return {
            "kind": "compute#operation",
            "name": operation,
            "operationType": "delete",
            "status": "DONE",
            "progress": 100,
            "region": f"{_ROOT}/{parent}",
            "targetLink": f"{_ROOT}/{full}",
            "selfLink": f"{_ROOT}/{parent}/operations/{operation}",
            "insertTime": moment,
            "startTime": moment,
            "endTime": moment,
        }


def _region(policy: CloudResource) -> str:
    return policy.name.split("/")[3]


def _shown(policy: CloudResource) -> dict[str, Any]:
    inputs = policy.body["inputs"]
    project = policy.name.split("/")[1]
    return {
        "kind": "compute#resourcePolicy",
        "name": policy.short_name,
        "region": f"{_ROOT}/projects/{project}/regions/{_region(policy)}",
        "selfLink": f"{_ROOT}/{policy.name}",
        "creationTimestamp": policy.created,
        "status": "READY",
        **{key: inputs[key] for key in _SHOWN if inputs.get(key)},
    }
