"""The permissions that a storage call needs, and their resources.

Source: cloud.google.com/storage/docs/access-control/iam-json.

Belief: storage-permissions-of-calls.
"""

from __future__ import annotations

from dataclasses import dataclass

_UPLOADS = (("upload", "storage", "v1", "b"), ("resumable", "upload", "storage", "v1", "b"))
_DOWNLOAD = ("download", "storage", "v1", "b")
_JSON = ("storage", "v1", "b")
_BUCKET_VERBS = {
    "GET": "storage.buckets.get",
    "PATCH": "storage.buckets.update",
    "PUT": "storage.buckets.update",
    "DELETE": "storage.buckets.delete",
}
_OBJECT_VERBS = {
    "GET": "storage.objects.get",
    "HEAD": "storage.objects.get",
    "PATCH": "storage.objects.update",
    "PUT": "storage.objects.update",
    "DELETE": "storage.objects.delete",
}


@dataclass(frozen=True)
class Need:
    """One permission that a call needs. No bucket: on the project. ``prefix`` is that of a listing."""

    permission: str
    bucket: str = ""
    name: str = ""
    prefix: str = ""


@dataclass(frozen=True)
class Needs:
    """All permissions that a call needs.

    Attributes:
        needs: every one has to be given.
        target: (bucket, name) that the call creates; replacing what is there needs storage.objects.delete too.
        named_in_body: the target's name may stand in the body only.
        sources_in_body: the body names objects that are read.
    """

    needs: tuple[Need, ...]
    target: tuple[str, str] | None = None
    named_in_body: bool = False
    sources_in_body: bool = False


def needs_of(method: str, path: tuple[str, ...], query: dict[str, str]) -> Needs | None:
    """Return the permissions that a call of the JSON API needs; None for any other call."""
    for prefix in _UPLOADS:
        if path[: len(prefix)] == prefix and len(path) == len(prefix) + 2:
            bucket, name = path[len(prefix)], query.get("name", "")
            if query.get("upload_id"):
                return Needs(())  # the session's id is the permission
            return Needs((Need("storage.objects.create", bucket, name),), (bucket, name), named_in_body=not name)
    if path[:4] == _DOWNLOAD and len(path) > len(_DOWNLOAD) + 2:
        return Needs((Need("storage.objects.get", path[4], "/".join(path[6:])),))
    if path[:3] == _JSON:
        return _json_needs(method, path[3:], query)
    return None


def _json_needs(method: str, path: tuple[str, ...], query: dict[str, str]) -> Needs | None:
    match path:
        case ():
            return Needs((Need("storage.buckets.create" if method == "POST" else "storage.buckets.list"),))
        case (bucket,) if method in _BUCKET_VERBS:
            return Needs((Need(_BUCKET_VERBS[method], bucket),))
        case (bucket, "storageLayout" | "managedFolders" | "o") if method == "GET":
            return Needs((Need("storage.objects.list", bucket, prefix=query.get("prefix", "")),))
        case (bucket, "o", *rest) if rest:
            return _object_needs(method, bucket, tuple(rest))
    return None


def _object_needs(method: str, bucket: str, path: tuple[str, ...]) -> Needs | None:
    match path:
        case (*name, "compose") if method == "POST" and name:
            target = (bucket, "/".join(name))
            return Needs((Need("storage.objects.create", *target),), target, sources_in_body=True)
        case (name, "rewriteTo" | "copyTo", "b", other, "o", *copy) if method == "POST" and copy:
            target = (other, "/".join(copy))
            source = Need("storage.objects.get", bucket, name)
            return Needs((source, Need("storage.objects.create", *target)), target)
        case (name, "moveTo", "o", *moved) if method == "POST" and moved:
            target = (bucket, "/".join(moved))
            return Needs((Need("storage.objects.move", bucket, name), Need("storage.objects.create", *target)), target)
        case _ if method in _OBJECT_VERBS:
            return Needs((Need(_OBJECT_VERBS[method], bucket, "/".join(path)),))
    return None


def json_path(method: str, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the JSON API's path of a call of the XML API (``/BUCKET/OBJECT``), for reads and simple writes.

    Source: cloud.google.com/storage/docs/xml-api/get-object-download.
    """
    bucket_and_object = 2
    if (
        len(path) < bucket_and_object
        or not path[1]
        or path[0] in ("storage", "upload", "download", "resumable", "batch")
    ):
        return None
    if method in ("GET", "HEAD"):
        return (*_DOWNLOAD, path[0], "o", "/".join(path[1:]))
    return None
