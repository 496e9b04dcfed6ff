"""The OpenAPI 3.1 document: every method with all that it takes, answers and refuses.

Source: spec.openapis.org/oas/v3.1.1.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from encamp.api.errors import CODES
from encamp.api.methods import METHODS, Parameter
from encamp.api.schemas import schemas
from encamp.duration import Duration
from encamp.spec.job_id import PATTERN
from encamp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.api.methods import Method

_SEGMENT: Final = re.compile(r"\{(\w+)\}")
_INT64: Final = {"pattern": "^-?[0-9]{1,19}$"}
#: OpenAPI's equivalents of the discovery form's formats.
_FORMATS: Final[Mapping[str, dict[str, Any]]] = {
    "google-datetime": {"format": "date-time"},
    "google-duration": {"pattern": Duration.PATTERN},
    "google-fieldmask": {},
    "byte": {"contentEncoding": "base64"},
    "int64": {"format": "int64"} | _INT64,
    "int32": {"format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    "double": {"format": "double"},
}
_SEGMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "project": ("The project's id.", "^[^/:]+$"),
    "job": ("The job's id.", f"^{PATTERN.pattern}$"),
    "location": ("A region, such as us-central1.", "^[^/:]+$"),
}
#: Parameters of any method.
_STANDARD: Final = (
    Parameter("fields", "string", "Which fields to answer, such as jobs(jobId,state); all when absent."),
    Parameter("prettyPrint", "boolean", "Whether the answer has line breaks."),
)
#: HTTP code of a refusal to when it is given.
_REFUSALS: Final[Mapping[int, str]] = {
    400: "Something in the request is wrong; where a field is, details say which.",
    401: "No credential came with the request, or nobody stands behind it.",
    403: "The caller may not do this, or there is no such job that they could know of.",
    404: "There is no such thing.",
    408: "The request did not come in time.",
    409: "The id is taken, or what was read has changed since.",
    413: "The body is too large.",
    429: "There are too many requests.",
    431: "The request's head is too large.",
    500: "The service made a mistake. It can be tried again.",
    503: "The service cannot answer now. It can be tried again.",
    504: "The answer took too long. It can be tried again.",
}
#: Only what has a body, and only what changes something that others may change.
_OF_BODIES: Final = frozenset({413})
_OF_CONFLICTS: Final = frozenset({409})
_CONFLICTING: Final = frozenset({"projects.jobs.create", "projects.jobs.patch", "projects.jobs.setIamPolicy"})


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document. Its server is wherever it was read from."""
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Training jobs",
            "version": __version__,
            "summary": "Training jobs as AI Platform Training took them, run by encamp.",
            "description": "What any tool needs that spoke projects.jobs of ml.googleapis.com, version 1.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": _paths(METHODS),
        "components": {
            "schemas": {name: _form(schema) for name, schema in schemas().items()} | _ERRORS,
            "responses": {str(code): _refusal(text) for code, text in _REFUSALS.items()},
            "parameters": {name: _segment(name) for name in _SEGMENTS},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An OIDC ID token or a Google access token; in the sandbox, a token of its own.",
                }
            },
        },
    }


def _paths(methods: Iterable[Method]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for method in methods:
        at = paths.setdefault(f"/{method.path}", {})
        at.setdefault("parameters", [_ref("parameters", name) for name in _SEGMENT.findall(method.path)])
        at[method.verb.lower()] = _operation(method)
    return paths


def _operation(method: Method) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": method.id,
        "summary": method.description,
        "tags": [method.id.split(".")[-2]],
        "parameters": [_query(one) for one in (*method.query, *_STANDARD)],
        "responses": {
            "200": {"description": "Done.", "content": _json(method.response)},
            **{str(code): _ref("responses", str(code)) for code in _refusals(method)},
        },
    }
    if method.permission is not None:
        made["description"] = f"Takes the permission {method.permission}."
    if method.request is not None:
        made["requestBody"] = {"required": bool(_fields(method.request)), "content": _json(method.request)}
    return made


def _refusals(method: Method) -> Iterable[int]:
    for code in _REFUSALS:
        if code in _OF_BODIES and method.request is None:
            continue
        if code in _OF_CONFLICTS and method.id not in _CONFLICTING:
            continue
        yield code


def _fields(name: str) -> Mapping[str, Any]:
    return schemas()[name]["properties"]


def _query(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": one.kind}
    if one.kind == "integer":
        schema |= _FORMATS["int32"]
    return {"name": one.name, "in": "query", "description": one.description, "schema": schema}


def _segment(name: str) -> dict[str, Any]:
    text, pattern = _SEGMENTS[name]
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _refusal(text: str) -> dict[str, Any]:
    return {"description": text, "content": _json("Error")}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref("schemas", name)}}


def _ref(kind: str, name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in this document's words."""
    made = dict(schema)
    made |= _FORMATS.get(made.pop("format", ""), {})
    if "$ref" in made:
        made |= _ref("schemas", made["$ref"])
    for key in ("items", "additionalProperties"):
        if made.get(key):
            made[key] = _form(made[key])
    if "properties" in made:
        made["properties"] = {name: _form(one) for name, one in made["properties"].items()}
    return made


_ERRORS: Final[dict[str, Any]] = {
    "Error": {
        "type": "object",
        "description": "Why a request is refused, in the form of Google's APIs.",
        "required": ["error"],
        "properties": {"error": {"$ref": "#/components/schemas/Status"}},
    },
    "Status": {
        "type": "object",
        "description": "What went wrong.",
        "required": ["code", "message", "status"],
        "properties": {
            "code": {"type": "integer", "description": "The HTTP code."},
            "message": {"type": "string", "description": "What is wrong, where, and what to try."},
            "status": {"type": "string", "enum": list(CODES), "description": "Name of the kind of refusal."},
            "details": {
                "type": "array",
                "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
                "description": "For programs: of google.rpc.BadRequest each wrong field, with what is wrong about it.",
            },
        },
    },
}
