"""Bytes in and out of the storage server: uploads of the three kinds, downloads with Range.

Sources: cloud.google.com/storage/docs/json_api/v1/objects/insert and .../get; RFC 9110 section 14 for ranges.

Belief: storage-range-of-an-object.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response, StreamingResponse

from encamp_sandbox.storage import multipart
from encamp_sandbox.storage.digests import Digests, check_digests
from encamp_sandbox.storage.errors import StorageError, invalid
from encamp_sandbox.storage.model import Conditions
from encamp_sandbox.storage.objects import Content
from encamp_sandbox.storage.sessions import ContentRange

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from encamp_sandbox.storage.objects import Objects
    from encamp_sandbox.storage.sessions import Sessions

_CHUNK = 1 << 20
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
#: Set by the front: the URL that the caller reached us by, and whether it may replace what is there.
BASE_HEADER = "x-encamp-base"
NO_OVERWRITE_HEADER = "x-encamp-no-overwrite"


@dataclass(frozen=True)
class Transfer:
    """Uploads and downloads of one storage server."""

    objects: Objects
    sessions: Sessions

    async def upload(self, request: Request, bucket: str) -> Response:
        """Take an upload: its kind is in ``uploadType``, the next part of a resumable one names ``upload_id``."""
        query = request.query_params
        if session := query.get("upload_id"):
            return await self._continue(request, session)
        kind = query.get("uploadType") or request.headers.get("x-goog-upload-protocol")
        if kind == "resumable":
            return await self._open(request, bucket)
        if kind == "media":
            body: dict[str, Any] = {"contentType": request.headers.get("content-type", "application/octet-stream")}
            path, digests = await self._spool(request)
        elif kind == "multipart":
            spooled, _ = await self._spool(request)
            path = self.objects.new_file()
            try:
                body, digests = multipart.split(spooled, path, request.headers.get("content-type", ""))
            finally:
                spooled.unlink()
        else:
            raise invalid("Invalid value for uploadType")
        return JSONResponse(self._store(request, bucket, body, Content(path, digests)))

    def _store(self, request: Request, bucket: str, body: dict[str, Any], content: Content) -> dict[str, Any]:
        try:
            check_digests(body, content.digests)
            if encoding := request.query_params.get("contentEncoding"):
                body["contentEncoding"] = encoding
            name = request.query_params.get("name") or str(body.get("name") or "")
            conditions = Conditions.of(request.query_params)
            return self.objects.put(bucket, name, body, content, conditions, overwrite=_may_overwrite(request))
        except BaseException:
            content.path.unlink(missing_ok=True)
            raise

    async def _spool(self, request: Request) -> tuple[Path, Digests]:
        path, digests = self.objects.new_file(), Digests()
        try:
            with path.open("wb") as file:
                async for chunk in request.stream():
                    digests.update(chunk)
                    file.write(chunk)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path, digests

    async def _open(self, request: Request, bucket: str) -> Response:
        raw = await request.body()
        try:
            body = json.loads(raw) if raw.strip() else {}
        except ValueError as error:
            raise invalid("Parse Error") from error
        if content_type := request.headers.get("x-upload-content-type"):
            body.setdefault("contentType", content_type)
        query = {**request.query_params, "overwrite": _may_overwrite(request)}
        name = request.query_params.get("name") or str(body.get("name") or "")
        session = self.sessions.start(bucket, name, body, query)
        base = request.headers.get(BASE_HEADER) or str(request.base_url).rstrip("/")
        parameters = urlencode({"uploadType": "resumable", "name": name, "upload_id": session})
        location = f"{base}/upload/storage/v1/b/{bucket}/o?{parameters}"
        return Response(status_code=200, headers={"location": location, "x-guploader-uploadid": session})

    async def _continue(self, request: Request, session: str) -> Response:
        if request.method == "DELETE":
            self.sessions.cancel(session)
            return Response(status_code=499)
        span = ContentRange.of(request.headers.get("content-range"))
        size, finished = await self.sessions.write(session, span, request.stream())
        if finished is not None:
            return JSONResponse(finished)
        headers = {"x-guploader-uploadid": session} | ({"range": f"bytes=0-{size - 1}"} if size else {})
        if request.headers.get("x-guploader-no-308") == "yes":  # Go's client, to which 308 is a redirection
            return Response(status_code=200, headers={**headers, "x-http-status-code-override": "308"})
        return Response(status_code=308, headers=headers)

    def download(self, request: Request, row: sqlite3.Row) -> Response:
        """Return an object's bytes, or the requested range of them."""
        headers = _object_headers(row)
        size = row["size"]
        span = _range(request.headers.get("range"), size)
        if span is not None:
            headers["content-range"] = f"bytes {span[0]}-{span[1] - 1}/{size}"
        start, end = span or (0, size)
        headers["content-length"] = str(end - start)
        status = 206 if span else 200
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        # Opened before the answer starts: a delete that comes in between takes the name away, not the bytes.
        return StreamingResponse(_read(self.objects.path(row), start, end), status_code=status, headers=headers)


def _may_overwrite(request: Request) -> bool:
    return NO_OVERWRITE_HEADER not in request.headers


def _object_headers(row: sqlite3.Row) -> dict[str, str]:
    body = json.loads(row["body"])
    digests = [f"crc32c={row['crc32c']}", *([f"md5={row['md5']}"] if row["md5"] else [])]
    shown = {
        "content-type": body.get("contentType") or "application/octet-stream",
        "content-encoding": body.get("contentEncoding"),
        "content-disposition": body.get("contentDisposition"),
        "content-language": body.get("contentLanguage"),
        "cache-control": body.get("cacheControl"),
        "accept-ranges": "bytes",
        "etag": f'"{row["generation"]}"',
        "x-goog-generation": str(row["generation"]),
        "x-goog-metageneration": str(row["metageneration"]),
        "x-goog-hash": ",".join(digests),
        "x-goog-stored-content-length": str(row["size"]),
        "x-goog-stored-content-encoding": body.get("contentEncoding") or "identity",
    }
    return {key: value for key, value in shown.items() if value}


def _range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the half-open range that is asked for; None for all, as for a header that makes no sense."""
    found = _RANGE.fullmatch(header.strip()) if header else None
    if not found or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    if start >= size:
        raise StorageError(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
    return None if end <= start else (start, end)


def _read(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    file = path.open("rb")

    async def chunks() -> AsyncIterator[bytes]:
        left = end - start
        with file:
            file.seek(start)
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk

    return chunks()
