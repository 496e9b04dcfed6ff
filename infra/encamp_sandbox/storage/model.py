"""The storage server's data of buckets and objects, and their JSON resources.

Source: cloud.google.com/storage/docs/json_api/v1/buckets and .../objects (resource representations).

Belief: storage-object-names.
"""

from __future__ import annotations

import base64
import json
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from encamp_sandbox.storage.errors import StorageError, invalid, precondition_failed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

_API = "https://www.googleapis.com/storage/v1"
#: The storage URL of the present caller: clients download from the ``mediaLink`` that they are given.
caller_base: ContextVar[str] = ContextVar("caller_base", default="https://storage.googleapis.com")
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_MAX_OBJECT_NAME = 1024

#: Fields of an object that its writer sets; everything else is the server's.
OBJECT_FIELDS = (
    "cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType", "customTime",
    "metadata", "storageClass", "eventBasedHold", "temporaryHold",
)  # fmt: skip


@dataclass(frozen=True)
class Conditions:
    """Conditions on the object that exists now; generation 0 means that there is none."""

    generation: int | None = None
    not_generation: int | None = None
    metageneration: int | None = None
    not_metageneration: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], prefix: str = "if") -> Conditions:
        """Read them from a query such as ``ifGenerationMatch=0``; ``prefix`` is ``ifSource`` for a source object."""
        words = ("GenerationMatch", "GenerationNotMatch", "MetagenerationMatch", "MetagenerationNotMatch")
        try:
            return cls(*(int(query[prefix + word]) if query.get(prefix + word) else None for word in words))
        except ValueError as error:
            raise invalid("Invalid argument: a generation is a whole number") from error

    def check(self, row: sqlite3.Row | None, *, reading: bool = False) -> None:
        """Raise 412 (304 for a read of what is unchanged) unless they hold for this row."""
        generation = row["generation"] if row else 0
        metageneration = row["metageneration"] if row else 0
        if self.generation not in (None, generation) or self.metageneration not in (None, metageneration):
            raise precondition_failed()
        if self.not_generation == generation or self.not_metageneration == metageneration:
            if reading:
                raise StorageError(304, "notModified", "Not Modified")
            raise precondition_failed()


def check_bucket_name(name: object) -> str:
    """Return the bucket's name if it obeys cloud.google.com/storage/docs/buckets#naming, else an error."""
    if not isinstance(name, str) or not _BUCKET_NAME.fullmatch(name) or ".." in name or name.startswith("goog"):
        raise invalid(f"Invalid bucket name: '{name}'")
    return name


def check_object_name(name: str) -> str:
    """Return the object's name if it obeys cloud.google.com/storage/docs/objects#naming, else an error."""
    if not name:
        raise StorageError(400, "required", "Required")
    if len(name.encode()) > _MAX_OBJECT_NAME or "\r" in name or "\n" in name or name in (".", ".."):
        raise invalid("Invalid object name")
    return name


def etag(generation: int, metageneration: int) -> str:
    """Return an entity tag that changes with either number."""
    return base64.b64encode(f"{generation}/{metageneration}".encode()).decode()


def bucket_resource(row: sqlite3.Row) -> dict[str, Any]:
    """Return a bucket as the API shows it."""
    name = row["name"]
    return {
        "storageClass": "STANDARD",
        "location": "US",
        **json.loads(row["body"]),
        "kind": "storage#bucket",
        "id": name,
        "name": name,
        "selfLink": f"{_API}/b/{name}",
        "metageneration": str(row["metageneration"]),
        "generation": "1",
        "etag": etag(1, row["metageneration"]),
        "timeCreated": row["created"],
        "updated": row["updated"],
    }


def object_resource(row: sqlite3.Row) -> dict[str, Any]:
    """Return an object as the API shows it."""
    bucket, name, generation = row["bucket"], row["name"], row["generation"]
    path = f"b/{bucket}/o/{quote(name, safe='')}"
    shown = {
        "storageClass": "STANDARD",
        **json.loads(row["body"]),
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "selfLink": f"{_API}/{path}",
        "mediaLink": f"{caller_base.get()}/download/storage/v1/{path}?generation={generation}&alt=media",
        "name": name,
        "bucket": bucket,
        "generation": str(generation),
        "metageneration": str(row["metageneration"]),
        "size": str(row["size"]),
        "md5Hash": row["md5"],
        "crc32c": row["crc32c"],
        "etag": etag(generation, row["metageneration"]),
        "timeCreated": row["created"],
        "timeFinalized": row["created"],
        "timeStorageClassUpdated": row["created"],
        "updated": row["updated"],
        "timeDeleted": row["deleted"],
    }
    return {key: value for key, value in shown.items() if value is not None}


def merge_patch(body: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``body`` after a merge patch: null removes a key, an object is merged into (RFC 7396)."""
    merged = dict(body)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = merge_patch(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[key] = value
    return merged
