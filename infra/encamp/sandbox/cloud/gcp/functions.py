"""The functions (data sources) that the sandbox's ``gcp`` provider serves.

Property names are those of the pulumi_gcp wheel; the values, of the storage and Resource Manager APIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.errors import GoogleError, not_found
from encamp.sandbox.cloud.gcp.kms_types import service_agent
from encamp.sandbox.cloud.policies import bucket_policy_name
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from encamp.sandbox.cloud.gcp.model import Context
    from encamp.sandbox.provider import Properties

    Function = Callable[[Properties, Context], Awaitable[dict[str, Any]]]


async def _bucket_objects(args: Properties, context: Context) -> dict[str, Any]:
    bucket = str(args["bucket"])
    if await context.storage.bucket(bucket) is None:
        raise not_found(bucket_policy_name(bucket))
    query = {key: str(args[key]) for key in ("prefix", "matchGlob") if args.get(key)}
    found = [
        {key: item.get(key, "") for key in ("name", "contentType", "mediaLink", "selfLink", "storageClass")}
        async for item in context.storage.objects(bucket, **query)
    ]
    shown = {key: args.get(key) for key in ("bucket", "prefix", "matchGlob")}
    return {**shown, "bucketObjects": found, "id": bucket}


async def _project(args: Properties, context: Context) -> dict[str, Any]:
    project = args.get("projectId") or context.project
    if project != context.project:
        raise GoogleError(403, f"the sandbox serves the project {context.project} only, not {project}")
    number = project_number(context.project)
    return {
        "id": f"projects/{context.project}",
        "projectId": context.project,
        "name": context.project,
        "number": number,
        "billingAccount": "",
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
    """The agent of Cloud Storage, which asking for it makes."""
    project = args.get("project") or context.project
    if project != context.project:
        raise GoogleError(403, f"the sandbox serves the project {context.project} only, not {project}")
    email = service_agent("storage", context.project)
    return {"id": email, "emailAddress": email, "member": f"serviceAccount:{email}", "project": project}


FUNCTIONS: Final[dict[str, Function]] = {
    "gcp:storage/getBucketObjects:getBucketObjects": _bucket_objects,
    "gcp:organizations/getProject:getProject": _project,
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": _storage_agent,
}
