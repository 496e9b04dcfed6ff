"""The body of a multipart upload: one JSON part with metadata, one part with the bytes.

Some clients quote the boundary in single quotes and end lines with a bare LF; both are taken, as Google does.
Source: cloud.google.com/storage/docs/uploading-objects#uploading-an-object (multipart/related, RFC 2387).

Belief: storage-multipart-upload.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from encamp_sandbox.storage.digests import Digests
from encamp_sandbox.storage.errors import invalid

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_HEAD = 1 << 20
_TAIL = 1 << 10
_CHUNK = 1 << 20
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^;\s]+))""", re.IGNORECASE)
_PART = re.compile(rb"\r?\n\r?\n")


def boundary_of(content_type: str) -> bytes:
    """Return the boundary that a Content-Type names."""
    found = _BOUNDARY.search(content_type)
    if not found:
        raise invalid("Missing boundary in the Content-Type of a multipart upload")
    return next(group for group in found.groups() if group).encode()


def metadata_of(head: bytes, content_type: str) -> dict[str, Any]:
    """Return the metadata of a body of which only the beginning is known, which has to hold the whole first part."""
    return _parts(head, b"--" + boundary_of(content_type))[0]


def split(source: Path, target: Path, content_type: str) -> tuple[dict[str, Any], Digests]:
    """Write the bytes part of a spooled body to ``target``; its metadata and checksums."""
    mark = b"--" + boundary_of(content_type)
    size = source.stat().st_size
    with source.open("rb") as file:
        head = file.read(_HEAD)
        metadata, headers, start = _parts(head, mark)
        file.seek(max(start, size - _TAIL - len(mark)))
        tail_at = file.tell()
        tail = file.read()
        end = tail.rfind(b"\n" + mark + b"--")
        if end < 0:
            raise invalid("The multipart body does not end with its boundary")
        if end and tail[end - 1 : end] == b"\r":
            end -= 1
        digests = _copy(file, start, tail_at + end, target)
    if "contentType" not in metadata and headers:
        metadata["contentType"] = headers
    return metadata, digests


def _parts(head: bytes, mark: bytes) -> tuple[dict[str, Any], str, int]:
    """Return the metadata, the content type of the second part, and where its bytes begin."""
    first = head.find(mark)
    blank = _PART.search(head, first)
    second = head.find(b"\n" + mark, blank.end() - 1) if blank and first >= 0 else -1
    content = _PART.search(head, second + 1) if second >= 0 else None
    if blank is None or content is None:
        raise invalid("The multipart body has to hold a part of metadata and a part of bytes")
    try:
        metadata = json.loads(head[blank.end() : second] or b"{}")
    except ValueError as error:
        raise invalid("The metadata of the upload are no JSON") from error
    if not isinstance(metadata, dict):
        raise invalid("The metadata of the upload have to be a JSON object")
    line = re.search(rb"content-type:\s*([^\r\n]+)", head[second : content.start()], re.IGNORECASE)
    return metadata, line.group(1).decode(errors="replace").strip() if line else "", content.end()


def _copy(file: BinaryIO, start: int, end: int, target: Path) -> Digests:
    digests = Digests()
    file.seek(start)
    with target.open("wb") as out:
        while left := end - start - digests.size:
            chunk = file.read(min(_CHUNK, left))
            digests.update(chunk)
            out.write(chunk)
    return digests
