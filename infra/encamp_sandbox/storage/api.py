"""The JSON API of Cloud Storage over HTTP: which call is meant, and its answer.

Paths are taken apart before they are unquoted, because an object's name may hold an encoded ``/``.
Source: cloud.google.com/storage/docs/json_api/v1.

Belief: storage-names-are-quoted.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from encamp_sandbox.storage.buckets import Buckets
from encamp_sandbox.storage.compose import compose, move, rewrite
from encamp_sandbox.storage.database import open_database
from encamp_sandbox.storage.errors import StorageError, disk_trouble, invalid
from encamp_sandbox.storage.listing import ListRequest, list_objects, page_size, read_token, write_token
from encamp_sandbox.storage.model import Conditions, caller_base, object_resource
from encamp_sandbox.storage.objects import Objects
from encamp_sandbox.storage.sessions import Sessions
from encamp_sandbox.storage.transfer import BASE_HEADER, Transfer

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

_UPLOADS = (("upload", "storage", "v1", "b"), ("resumable", "upload", "storage", "v1", "b"))
_DOWNLOAD = ("download", "storage", "v1", "b")
_JSON = ("storage", "v1", "b")


@dataclass(frozen=True)
class _Call:
    request: Request
    method: str
    query: dict[str, str]


class StorageServer:
    """An ASGI application that serves the buckets and objects of one folder.

    Args:
        root: the folder; made if it is missing.
        token: the bearer token that every call but ``/healthz`` has to carry.
    """

    def __init__(self, root: Path, token: str) -> None:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root = root
        self._token = token
        self._database = open_database(root / "storage.sqlite3")
        self.buckets = Buckets(self._database)
        self.objects = Objects(self._database, root)
        self.sessions = Sessions(self._database, self.objects)
        self._transfer = Transfer(self.objects, self.sessions)
        self.sessions.expire()
        self.objects.sweep()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        try:
            response = await self._written(request)
        except StorageError as error:
            empty = error.code == 304 or request.method == "HEAD"  # noqa: PLR2004 - HTTP's own number
            response = Response(status_code=error.code) if empty else JSONResponse(error.body(), error.code)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _written(self, request: Request) -> Response:
        """Return the answer; a full disk is said as a refusal, and what was begun is taken back."""
        try:
            return await self._answer(request)
        except (OSError, sqlite3.Error) as error:
            if (refusal := disk_trouble(error, self._root)) is None:
                raise
            raise refusal from error

    async def _answer(self, request: Request) -> Response:
        if request.url.path == "/healthz":
            return JSONResponse({"status": "ok"})
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise StorageError(401, "authError", "Invalid Credentials")
        if base := request.headers.get(BASE_HEADER):
            caller_base.set(base)
        raw = request.scope.get("raw_path", request.url.path.encode()).split(b"?")[0].decode("latin-1")
        path = [unquote(part) for part in raw.removeprefix("/").removesuffix("/").split("/")]
        method = request.headers.get("x-http-method-override", request.method)
        call = _Call(request, method, dict(request.query_params))
        for prefix in _UPLOADS:
            if tuple(path[: len(prefix)]) == prefix and len(path) == len(prefix) + 2:
                return await self._transfer.upload(request, path[len(prefix)])
        if tuple(path[:4]) == _DOWNLOAD and path[5:6] == ["o"] and path[6:]:
            return self._object_get(call, path[4], "/".join(path[6:]), media=True)
        if tuple(path[:3]) == _JSON:
            return await self._json(call, path[3:])
        raise StorageError(404, "notFound", "Not Found")

    async def _json(self, call: _Call, path: list[str]) -> Response:
        match path:
            case []:
                return await self._bucket_collection(call)
            case [bucket]:
                return await self._bucket(call, bucket)
            case [bucket, "storageLayout"]:
                shown = self.buckets.get(bucket)
                layout = {"kind": "storage#storageLayout", "bucket": bucket, "location": shown["location"]}
                return JSONResponse({**layout, "locationType": "region", "hierarchicalNamespace": {"enabled": False}})
            case [bucket, "managedFolders"] if call.method == "GET":
                self.buckets.get(bucket)
                return JSONResponse({"kind": "storage#managedFolders"})
            case [bucket, "o"] if call.method == "GET":
                return JSONResponse(list_objects(self._database, bucket, ListRequest.of(call.query)))
            case [bucket, "o", *rest] if rest:
                return await self._object(call, bucket, rest)
        raise StorageError(404, "notFound", "Not Found")

    async def _bucket_collection(self, call: _Call) -> Response:
        if call.method == "POST":
            return JSONResponse(self.buckets.create(await _body(call.request)))
        after = read_token(call.query.get("pageToken")) or ""
        items, more = self.buckets.page(call.query.get("prefix", ""), after, page_size(call.query))
        answer: dict[str, Any] = {"kind": "storage#buckets", "items": items}
        return JSONResponse({**answer, "nextPageToken": write_token(more)} if more else answer)

    async def _bucket(self, call: _Call, bucket: str) -> Response:
        conditions = Conditions.of(call.query)
        match call.method:
            case "GET":
                return JSONResponse(self.buckets.get(bucket, conditions))
            case "PATCH" | "PUT":
                replace = call.method == "PUT"
                body = await _body(call.request)
                return JSONResponse(self.buckets.change(bucket, body, conditions, replace=replace))
            case "DELETE":
                self.buckets.delete(bucket, conditions)
                return Response(status_code=204)
        raise _not_allowed()

    async def _object(self, call: _Call, bucket: str, rest: list[str]) -> Response:
        if call.method == "POST" and rest[-1] == "compose":
            body = await _body(call.request)
            return JSONResponse(compose(self.objects, bucket, "/".join(rest[:-1]), body, call.request))
        if call.method == "POST" and rest[1:3] == ["moveTo", "o"] and rest[3:]:
            names = (rest[0], "/".join(rest[3:]))
            return JSONResponse(move(self.objects, bucket, names, call.request))
        for verb in ("rewriteTo", "copyTo"):
            if call.method == "POST" and rest[1:3] == [verb, "b"] and rest[4:5] == ["o"]:
                body = await _body(call.request)
                target = (rest[3], "/".join(rest[5:]))
                copied = rewrite(self.objects, (bucket, rest[0]), target, body, call.request)
                return JSONResponse(copied if verb == "rewriteTo" else copied["resource"])
        name = "/".join(rest)
        conditions = Conditions.of(call.query)
        match call.method:
            case "GET" | "HEAD":
                return self._object_get(call, bucket, name, media=call.query.get("alt") == "media")
            case "PATCH" | "PUT":
                body, replace = await _body(call.request), call.method == "PUT"
                return JSONResponse(self.objects.change(bucket, name, body, conditions, replace=replace))
            case "DELETE":
                self.objects.delete(bucket, name, _generation(call.query), conditions)
                return Response(status_code=204)
        raise _not_allowed()

    def _object_get(self, call: _Call, bucket: str, name: str, *, media: bool) -> Response:
        row = self.objects.row(bucket, name, _generation(call.query))
        Conditions.of(call.query).check(row, reading=True)
        return self._transfer.download(call.request, row) if media else JSONResponse(object_resource(row))


def _generation(query: dict[str, str]) -> int | None:
    """Return the generation that is asked for; None, and 0 in a query, is the live one."""
    try:
        return int(query.get("generation") or 0) or None
    except ValueError as error:
        raise invalid("Invalid value for generation") from error


def _not_allowed() -> StorageError:
    return StorageError(405, "methodNotAllowed", "Method Not Allowed")


async def _body(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        body = json.loads(raw) if raw.strip() else {}
    except ValueError as error:
        raise StorageError(400, "parseError", "Parse Error") from error
    if not isinstance(body, dict):
        raise invalid("The body has to be a JSON object")
    return body
