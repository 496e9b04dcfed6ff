"""The operation that a storage call requests, in the words of faults.

Objects and buckets have the full names that IAM knows them by (``projects/_/buckets/B/objects/O``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.faults import Asked
from encamp_sandbox.cloud.iam.policies import bucket_policy_name
from encamp_sandbox.cloud.services.storage.permissions import json_path

if TYPE_CHECKING:
    from encamp_sandbox.cloud.calls import Call

_OPERATIONS = {
    "GET": "read",
    "HEAD": "read",
    "POST": "create",
    "PUT": "update",
    "PATCH": "update",
    "DELETE": "delete",
}
_UPLOADS = ("upload", "resumable")


async def asked_of(call: Call) -> Asked | None:
    """Return the operation that a call requests; None for neither a bucket nor an object."""
    path = json_path(call.method, call.path) or call.path
    operation = _OPERATIONS.get(call.method, "read")
    if "b" not in path:
        return None
    bucket, *rest = (*path[path.index("b") + 1 :], "")
    if path[0] in _UPLOADS:
        name = _object(bucket, call.query.get("name", ""))
        return Asked("storage:objects", "update" if "upload_id" in call.query else "create", name, call.agent)
    match rest:
        case ["iam", *_]:
            return Asked("storage:policies", operation, bucket_policy_name(bucket), call.agent)
        case ["o", *name] if any(name):
            return Asked("storage:objects", operation, _object(bucket, "/".join(name).rstrip("/")), call.agent)
        case ["o", *_]:
            return Asked("storage:objects", operation, _object(bucket, call.query.get("prefix", "")), call.agent)
    if not bucket and call.method == "POST":
        bucket = await _name_of(call)
    return Asked("storage:buckets", operation, bucket_policy_name(bucket), call.agent)


async def _name_of(call: Call) -> str:
    """Return the name of a bucket that is to be made."""
    try:
        return str((await call.json()).get("name") or "")
    except GoogleError:
        return ""


def _object(bucket: str, name: str) -> str:
    return f"{bucket_policy_name(bucket)}/objects/{name}"
