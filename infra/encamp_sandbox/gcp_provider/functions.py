"""The functions (data sources) of the provider.

Property names are those of the pulumi_gcp wheel; the values, of the storage and Resource Manager APIs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.model import Context
    from encamp_sandbox.provider import Properties

Function = Callable[["Properties", "Context"], Awaitable[dict[str, Any]]]


async def _bucket_objects(args: Properties, context: Context) -> dict[str, Any]:
    bucket = str(args["bucket"])
    query = {key: str(args[key]) for key in ("prefix", "matchGlob") if args.get(key)}
    found: list[dict[str, Any]] = []
    while True:
        page = await context.rest.call(
            "GET", f"/storage/v1/b/{quote(bucket, safe='')}/o", context.patience, query=query
        )
        found += page.get("items", [])
        if not page.get("nextPageToken"):
            break
        query["pageToken"] = page["nextPageToken"]
    keys = ("name", "contentType", "mediaLink", "selfLink", "storageClass")
    shown = {key: args.get(key) for key in ("bucket", "prefix", "matchGlob")}
    return {**shown, "bucketObjects": [{key: item.get(key, "") for key in keys} for item in found], "id": bucket}


async def _project(args: Properties, context: Context) -> dict[str, Any]:
    project = _own(args.get("projectId"), context)
    found = await context.rest.call("GET", f"/cloudresourcemanager/v1/projects/{project}", context.patience)
    billing = await context.rest.call("GET", f"/cloudbilling/v1/projects/{project}/billingInfo", context.patience)
    return {
        "id": f"projects/{project}",
        "projectId": project,
        "name": found["name"],
        "number": found["projectNumber"],
        "billingAccount": str(billing.get("billingAccountName") or "").removeprefix("billingAccounts/"),
        "folderId": "",
        "orgId": "",
        "labels": {},
        "effectiveLabels": {},
        "pulumiLabels": {},
        "autoCreateNetwork": False,
        "deletionPolicy": "PREVENT",
        "tags": {},
    }


async def _storage_agent(args: Properties, context: Context) -> dict[str, Any]:
    """Return the agent of Cloud Storage, which asking for it makes."""
    project = _own(args.get("project"), context)
    found = await context.rest.call("GET", f"/storage/v1/projects/{project}/serviceAccount", context.patience)
    email = found["email_address"]
    return {"id": email, "emailAddress": email, "member": f"serviceAccount:{email}", "project": project}


def _own(given: object, context: Context) -> str:
    project = str(given or context.project)
    if project != context.project:
        raise GoogleError(403, f"the sandbox serves the project {context.project} only, not {project}")
    return project


FUNCTIONS: Final[dict[str, Function]] = {
    "gcp:storage/getBucketObjects:getBucketObjects": _bucket_objects,
    "gcp:organizations/getProject:getProject": _project,
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": _storage_agent,
}
