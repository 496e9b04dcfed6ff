"""What a REST call asks for, in the words of faults: a type such as ``container:nodePools``, an operation, a name.

The type is the service and the collection that the path ends in. Objects and buckets have the full names that IAM
knows them by (``projects/_/buckets/B/objects/O``); everything else its path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.sandbox.cloud.faults import Asked
from encamp.sandbox.cloud.policies import bucket_policy_name
from encamp.sandbox.cloud.storage_rules import json_path

if TYPE_CHECKING:
    from encamp.sandbox.cloud.calls import Call

_OPERATIONS = {
    "GET": "read",
    "HEAD": "read",
    "POST": "create",
    "PUT": "update",
    "PATCH": "update",
    "DELETE": "delete",
}
#: Custom methods that change something; every other one reads.
_VERBS = {"setIamPolicy": "update", "setSize": "update", "write": "create"}
_UPLOADS = ("upload", "resumable")


def asked_of(call: Call) -> Asked | None:
    """What a call asks for; None for the sandbox's own service and for what is no operation."""
    if call.service == "encamp":
        return None
    if call.service == "storage":
        return _storage(call)
    operation = _VERBS.get(call.verb, "read") if call.verb else _OPERATIONS.get(call.method, "read")
    # Behind the version come pairs of a collection and a name; a listing ends in the collection.
    parts = call.plain[2 if call.service == "compute" else 1 :]
    if not parts:
        return None
    collection = parts[-1] if len(parts) % 2 else parts[-2]
    return Asked(f"{call.service}:{collection}", operation, "/".join(parts))


def _storage(call: Call) -> Asked | None:
    path = json_path(call.method, call.path) or call.path
    operation = _OPERATIONS.get(call.method, "read")
    if "b" not in path:
        return None
    bucket, *rest = (*path[path.index("b") + 1 :], "")
    if path[0] in _UPLOADS:
        going_on = "upload_id" in call.query
        return Asked("storage:objects", "update" if going_on else "create", _object(bucket, call.query.get("name", "")))
    match rest:
        case ["iam", *_]:
            return Asked("storage:policies", operation, bucket_policy_name(bucket))
        case ["o", *name] if any(name):
            return Asked("storage:objects", operation, _object(bucket, "/".join(name).rstrip("/")))
        case ["o", *_]:
            return Asked("storage:objects", operation, _object(bucket, call.query.get("prefix", "")))
    return Asked("storage:buckets", operation, bucket_policy_name(bucket))


def _object(bucket: str, name: str) -> str:
    return f"{bucket_policy_name(bucket)}/objects/{name}"
