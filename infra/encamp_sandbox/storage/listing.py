"""Listing of objects: by prefix, rolled up at a delimiter, in pages.

Names sort by their UTF-8 bytes, which is how SQLite compares text. A rolled-up prefix is skipped by one
seek, so a listing costs what it returns, not what lies below.
Source: cloud.google.com/storage/docs/json_api/v1/objects/list.

Beliefs: storage-listing-is-consistent, storage-names-sort-by-bytes, storage-delimiter-rolls-up.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from encamp_sandbox.storage.buckets import bucket_row
from encamp_sandbox.storage.errors import invalid
from encamp_sandbox.storage.model import object_resource

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from encamp_sandbox.database import Database

_MAX_PAGE = 1000
_BATCH = 500
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class ListRequest:
    """A request for a listing; ``after`` is the last entry of the page before."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str | None = None
    after: str | None = None
    limit: int = _MAX_PAGE
    versions: bool = False
    trailing: bool = False
    glob: str | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListRequest:
        """Read it from query parameters."""
        return cls(
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter", ""),
            start=query.get("startOffset", ""),
            end=query.get("endOffset") or None,  # Go's client always sends it, mostly empty
            after=read_token(query.get("pageToken")),
            limit=page_size(query),
            versions=query.get("versions") == "true",
            trailing=query.get("includeTrailingDelimiter") == "true",
            glob=query.get("matchGlob"),
        )


@dataclass
class _Page:
    items: list[dict[str, Any]] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    last: str | None = None

    def __len__(self) -> int:
        return len(self.items) + len(self.prefixes)


def page_size(query: Mapping[str, str]) -> int:
    """Return ``maxResults``, at most 1000."""
    try:
        size = int(query.get("maxResults") or _MAX_PAGE)
    except ValueError as error:
        raise invalid("Invalid value for maxResults") from error
    return max(1, min(size, _MAX_PAGE))


def write_token(last: str) -> str:
    """Return a page token that names the last entry shown."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def read_token(token: str | None) -> str | None:
    """Return the entry that a page token names."""
    if not token:
        return None
    try:
        return base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, ValueError) as error:
        raise invalid("Invalid page token") from error


def list_objects(database: Database, bucket: str, request: ListRequest) -> dict[str, Any]:
    """Return one page of a bucket's objects, as the API answers it."""
    bucket_row(database, bucket)
    page = _Page()
    more = _fill(database, bucket, request, page)
    answer: dict[str, Any] = {"kind": "storage#objects"}
    if page.items:
        answer["items"] = page.items
    if page.prefixes:
        answer["prefixes"] = page.prefixes
    if more and page.last is not None:
        answer["nextPageToken"] = write_token(page.last)
    return answer


def _fill(database: Database, bucket: str, request: ListRequest, page: _Page) -> bool:
    """Fill a page; whether there is more."""
    from re import compile as compile_pattern  # noqa: PLC0415 - only a listing with a glob needs it

    pattern = compile_pattern(translate(request.glob)) if request.glob else None
    position = _start(request)
    while True:
        rows = _rows(database, bucket, request, position)
        if not rows:
            return False
        for row in rows:
            name = row["name"]
            if _beyond(name, request):
                return False
            if pattern and not pattern.match(name):
                continue
            group = _group(name, request)
            if group is not None and page.prefixes and page.prefixes[-1] == group:
                continue
            if len(page) >= request.limit and name != page.last:
                return True
            if group is None or (request.trailing and name == group):
                page.items.append(object_resource(row))
                page.last = name
            if group is not None:
                page.prefixes.append(group)
                page.last = group
                position = (group + _LAST, 0)
                break
        else:
            position = (rows[-1]["name"], rows[-1]["generation"])


def _start(request: ListRequest) -> tuple[str, int]:
    """Return the place (name, generation) after which to read."""
    first = max(request.prefix, request.start)
    if request.after is None or request.after < first:
        return first, -1
    rolled = (
        request.delimiter and request.after.endswith(request.delimiter) and len(request.after) > len(request.prefix)
    )
    return (request.after + _LAST, 0) if rolled else (request.after, 1 << 62)


def _rows(database: Database, bucket: str, request: ListRequest, position: tuple[str, int]) -> list[sqlite3.Row]:
    live = "" if request.versions else "AND live = 1"
    query = (
        f"SELECT * FROM objects WHERE bucket = ? {live} AND (name, generation) > (?, ?)"  # noqa: S608 - a constant
        " ORDER BY name, generation LIMIT ?"
    )
    return database.all(query, bucket, *position, min(_BATCH, request.limit + 1))


def _beyond(name: str, request: ListRequest) -> bool:
    if not name.startswith(request.prefix):
        return name > request.prefix
    return request.end is not None and name >= request.end


def _group(name: str, request: ListRequest) -> str | None:
    """Return the rolled-up prefix that an object falls under."""
    if not request.delimiter:
        return None
    found = name.find(request.delimiter, len(request.prefix))
    return None if found < 0 else name[: found + len(request.delimiter)]
