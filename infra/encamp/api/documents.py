"""Public documents, readable without a credential: the discovery document, the OpenAPI document, and a page.

Each is made once and kept. The discovery document names the service's own URL, which is whatever the client used; the
others name none.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.routing import Route

from encamp.api.discovery import discovery_document
from encamp.api.errors import ApiError
from encamp.api.openapi import openapi_document
from encamp.api.page import page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

DISCOVERY: Final = "/$discovery/rest"
OPENAPI: Final = "/openapi.json"
PAGE: Final = "/docs"
_JSON: Final = "application/json; charset=utf-8"
PATHS: Final = (DISCOVERY, OPENAPI, PAGE)
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(:[0-9]{1,5})?")
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
#: Number of hosts whose discovery documents are kept: a client may name any.
_HOSTS: Final = 16


@dataclass(frozen=True)
class Document:
    """A document as it is sent."""

    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def routes() -> Sequence[Route]:
    """Return the routes of all documents."""
    return [Route(path, partial(_answer, path), methods=["GET"]) for path in PATHS]


async def _answer(path: str, request: Request) -> Response:
    try:
        # Only who asked reads it, so whoever ends TLS before us may be believed.
        secure = request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
        root = root_of("https" if secure else request.scope["scheme"], request.headers.get("host"))
        found = document(path, version=request.query_params.get("version"), root=root)
    except ApiError as refused:
        return Response(_json(refused.body()), refused.code, media_type=_JSON)
    if found is None:
        raise AssertionError(path)
    return Response(found.body, headers=dict(found.headers), media_type=found.content_type)


def document(path: str, *, version: str | None, root: str) -> Document | None:
    """Return the document at a path, or None.

    Args:
        path: as in the request, decoded.
        version: the parameter ``version``, which the discovery document is asked for with.
        root: the service's URL, by ``root_of``.

    Raises:
        ApiError: NOT_FOUND; there is no document of that version.
    """
    if path == PAGE:
        return _page()
    if path == OPENAPI:
        return _openapi()
    if path == DISCOVERY:
        if version != "v1":
            raise ApiError("NOT_FOUND", "There is one version of this API; try: /$discovery/rest?version=v1")
        return _discovery(root)
    return None


def root_of(scheme: str, host: str | None) -> str:
    """Return the service's URL as a client named it, with a slash at its end.

    Raises:
        ApiError: INVALID_ARGUMENT where the Host header names no host.
    """
    if host is None or not _HOST.fullmatch(host):
        raise ApiError("INVALID_ARGUMENT", "The Host header names no host.")
    return f"{scheme}://{host}/"


@lru_cache(maxsize=_HOSTS)
def _discovery(root: str) -> Document:
    return _made(_JSON, _json(discovery_document(root)), {"Vary": "Host, X-Forwarded-Proto"})


@cache
def _openapi() -> Document:
    return _made(_JSON, _json(openapi_document()), {})


@cache
def _page() -> Document:
    return _made("text/html; charset=utf-8", page(openapi_document()).encode(), {"Content-Security-Policy": _POLICY})


def _made(content_type: str, body: bytes, headers: Mapping[str, str]) -> Document:
    usual = {
        "Cache-Control": "private, max-age=300",
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return Document(content_type, body, usual | dict(headers))


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode()
