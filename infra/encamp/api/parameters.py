"""The parameters of a request beside its JSON: verb and path from its head, and its query.

Standard parameters of Google's APIs are known; those that only change the form of an answer do, others do nothing.
Source: cloud.google.com/apis/docs/system-parameters; googleapiclient/http.py sends a GET with a long query as a POST.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from encamp.api.errors import ApiError
from encamp.api.partial import Selector, selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from encamp.api.methods import Method

#: Credentials are taken from the header alone: queries end up in logs.
_STANDARD: Final = frozenset(
    {
        "alt", "$alt", "$.xgafv", "access_token", "bearer_token", "callback", "$callback", "fields", "$fields", "key",
        "$key", "oauth_token", "passwd", "pp", "prettyPrint", "$prettyPrint", "quotaUser", "$quotaUser", "userIp",
        "userProject", "$userProject", "trace", "$trace", "uploadType", "upload_protocol", "$upload_protocol",
        "$outputDefaults", "$unique", "$apiVersion",
    }
)  # fmt: skip
#: Forms that JSON stands for.
_FORMS: Final = frozenset({"json", "media", ""})
_OVERRIDDEN: Final = frozenset({"GET", "PATCH", "PUT", "DELETE"})
_FORM: Final = "application/x-www-form-urlencoded"
_MOST: Final = 100
_LONGEST: Final = 80
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass(frozen=True)
class Asked:
    """The parameters of a request.

    Attributes:
        query: every parameter; the first one of a name.
        fields: what is wanted of the answer, empty for all of it.
        pretty: whether the answer should have line breaks.
    """

    query: Mapping[str, str]
    fields: Selector
    pretty: bool

    def parameters(self, method: Method) -> dict[str, str]:
        """Return those that a method takes.

        Raises:
            ApiError: INVALID_ARGUMENT; one is not known, or is no whole number where it has to be.
        """
        known = {one.name: one for one in method.query}
        for name in self.query:
            if name not in known and name not in _STANDARD:
                raise _wrong(name, "Cannot bind query parameter: this method knows no such one.")
        found = {name: self.query[name] for name in known if name in self.query}
        for name, value in found.items():
            if known[name].kind == "integer" and value and not _WHOLE.fullmatch(value):
                raise _wrong(name, f"{value[:_LONGEST]!r} is no whole number of 32 bits.")
        return found


@dataclass(frozen=True)
class Head:
    """The head of a request, before anything of its body is read.

    Attributes:
        verb: the one that is meant, which a header may say in place of POST.
        query: as it stands behind the path.
        form: whether the body goes on with the query.
    """

    verb: str
    path: str
    query: bytes
    form: bool = False


def head_of(scope: Scope, headers: Headers) -> Head:
    """Return the head of a request."""
    verb, path, query = scope["method"], scope["path"], scope["query_string"]
    override = headers.get("x-http-method-override", "").upper()
    if verb == "POST" and override in _OVERRIDDEN:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        return Head(override, path, query, form=override == "GET" and kind == _FORM)
    return Head("GET" if verb == "HEAD" else verb, path, query)


def asked(head: Head, form: bytes = b"") -> Asked:
    """Return the parameters of a request; ``form`` is its body if that is a part of its query.

    Raises:
        ApiError: INVALID_ARGUMENT; the query cannot be read, or asks for another form than JSON or for no fields.
    """
    query = _query(b"&".join(part for part in (head.query, form) if part))
    alt = query.get("alt", query.get("$alt", ""))
    if alt not in _FORMS:
        raise _wrong("alt", f"{alt[:_LONGEST]!r} is not served; there is only json.")
    fields = query.get("fields", query.get("$fields", ""))
    pretty = query.get("prettyPrint", query.get("$prettyPrint", query.get("pp", "")))
    return Asked(query, selector(fields) if fields else {}, pretty=pretty in {"true", "1"})


def _query(text: bytes) -> dict[str, str]:
    if not text:
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST, errors="strict")
    except (ValueError, UnicodeError):
        raise ApiError("INVALID_ARGUMENT", "The query cannot be read: it must be percent-encoded UTF-8.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _wrong(name: str, what: str) -> ApiError:
    shown = name[:_LONGEST]
    violation = {"field": shown, "description": what}
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
    return ApiError("INVALID_ARGUMENT", f"Invalid value at '{shown}': {what}", details=details)
