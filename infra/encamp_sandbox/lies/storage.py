"""Lies about Cloud Storage; most are about the names that probes use, so that nothing else is disturbed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.lies.model import Asked, Lie, Told, in_json, instead

if TYPE_CHECKING:
    from collections.abc import Callable

_UPLOAD: Final = r"/upload/storage/v1/b/[^/]+/o"
_LIST: Final = r"/storage/v1/b/[^/]+/o"
_BUCKET: Final = r"/storage/v1/b/[^/]+"
_LONGEST_NAME: Final = 1024
_MOST_SOURCES: Final = 32


def _object(name: str) -> str:
    return rf"/storage/v1/b/[^/]+/o/{name}"


def _listing(prefix: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Asked, Told], Told]:
    """Change listings of one prefix."""

    def tell(asked: Asked, told: Told) -> Told:
        return in_json(change)(asked, told) if asked.query.get("prefix") == prefix else told

    return tell


def _renamed(asked: Asked) -> Asked:
    name = asked.query.get("name", "").replace("\n", "_")[:_LONGEST_NAME]
    return replace(asked, query={**asked.query, "name": name})


def _fewer_sources(asked: Asked) -> Asked:
    return asked.with_json({**asked.json, "sourceObjects": asked.json["sourceObjects"][:_MOST_SOURCES]})


def _without_etag(asked: Asked) -> Asked:
    return asked.with_json({key: value for key, value in asked.json.items() if key != "etag"})


def _without_range(asked: Asked) -> Asked:
    return replace(asked, headers={key: value for key, value in asked.headers.items() if key != "range"})


def _without_held_range(asked: Asked, told: Told) -> Told:
    del asked
    return replace(told, headers={key: value for key, value in told.headers.items() if key != "range"})


def _rolled_up(asked: Asked) -> Asked:
    return asked.without("delimiter") if asked.query.get("prefix") == "rolled/" else asked


LIES: Final = (
    Lie(
        "storage-create-only-if-absent",
        "A write overwrites although it was to create only.",
        "POST",
        _UPLOAD,
        asks=lambda asked: asked.without("ifGenerationMatch"),
    ),
    Lie(
        "storage-generation-grows",
        "The metageneration of a new object is 7.",
        "POST",
        _UPLOAD,
        tells=in_json(lambda data: data.update(metageneration="7")),
    ),
    Lie(
        "storage-listing-is-consistent",
        "A listing lacks what has just been written.",
        path=_LIST,
        tells=_listing("listed/", lambda data: data.pop("items", None)),
    ),
    Lie(
        "storage-names-sort-by-bytes",
        "Listings come in the opposite order.",
        path=_LIST,
        tells=_listing("sorted/", lambda data: data["items"].reverse()),
    ),
    Lie("storage-delimiter-rolls-up", "Listings know no delimiter.", path=_LIST, asks=_rolled_up),
    Lie("storage-missing-is-404", "A missing object is forbidden.", path=_object("nothing"), tells=instead(404, 403)),
    Lie(
        "storage-multipart-upload",
        "Metadata of uploads in parts are lost.",
        "POST",
        _UPLOAD,
        tells=in_json(lambda data: data.pop("metadata", None)),
    ),
    Lie("storage-names-are-quoted", "A quoted name is not found.", path=_object("quoted/.*"), tells=instead(200, 404)),
    Lie(
        "storage-digest-is-checked",
        "Bytes that are not those that were promised are taken.",
        "PUT",
        _UPLOAD,
        tells=instead(400, 200, {"size": "9"}),
    ),
    Lie("storage-resumable-goes-on", "A 308 does not say what is held.", "PUT", _UPLOAD, tells=_without_held_range),
    Lie(
        "storage-resumable-is-cancelled", "Cancelling is answered with 204.", "DELETE", _UPLOAD, tells=instead(499, 204)
    ),
    Lie("storage-range-of-an-object", "A Range is not looked at.", path=_object("range"), asks=_without_range),
    Lie(
        "storage-compose-has-no-md5",
        "A composed object has an MD5.",
        "POST",
        _object("joined/compose"),
        tells=in_json(lambda data: data.update(md5Hash="1B2M2Y8AsgTpgAmY7PhCfg==")),
    ),
    Lie(
        "storage-compose-takes-32",
        "Of more than 32 objects the first 32 are composed.",
        "POST",
        _object("joined-33/compose"),
        asks=_fewer_sources,
    ),
    Lie("storage-object-names", "Names that are refused are changed.", "POST", _UPLOAD, asks=_renamed),
    Lie(
        "storage-policy-has-an-etag",
        "The etag of a policy is not looked at.",
        "PUT",
        rf"{_BUCKET}/iam",
        asks=_without_etag,
    ),
    Lie(
        "storage-bucket-that-holds-something",
        "A bucket that holds something seems to be deleted.",
        "DELETE",
        _BUCKET,
        tells=instead(409, 204),
    ),
    Lie(
        "storage-versions-stay",
        "Noncurrent versions are not listed.",
        path=_LIST,
        tells=_listing("versions", lambda data: data.pop("items", None)),
    ),
    Lie(
        "storage-move-is-atomic",
        "moveTo is not known.",
        "POST",
        _object("moved/from/moveTo/.+"),
        tells=instead(200, 404),
    ),
    Lie(
        "storage-patch-merges",
        "PATCH replaces metadata.",
        "PATCH",
        _object("patched"),
        asks=lambda asked: replace(asked, method="PUT"),
    ),
)
