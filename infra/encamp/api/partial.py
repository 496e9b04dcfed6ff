"""Partial answers: what the parameter ``fields`` selects, such as ``jobs(jobId,state),nextPageToken``.

Source: cloud.google.com/apis/docs/system-parameters; developers.google.com/workspace/drive/api/guides/fields-parameter.
"""

from __future__ import annotations

import re
from typing import Any, Final

from encamp.api.errors import ApiError

_TOKENS = re.compile(r"[A-Za-z0-9_.$-]+|[*,()/]")
_LONGEST: Final = 1000
_DEEPEST: Final = 20

#: Names of fields to what is wanted of them; an empty one wants all.
Selector = dict[str, Any]


def part(data: Any, wanted: Selector) -> Any:
    """Return the part of JSON data that a selector selects."""
    if not wanted:
        return data
    if isinstance(data, list):
        return [part(one, wanted) for one in data]
    if not isinstance(data, dict):
        return data
    whole = wanted.get("*")
    names = data if whole is not None else [name for name in data if name in wanted]
    return {name: part(data[name], wanted.get(name, whole or {})) for name in names}


def selector(text: str) -> Selector:
    """Return a selector, read.

    Raises:
        ApiError: INVALID_ARGUMENT; it cannot be read.
    """
    tokens = _TOKENS.findall(text)
    if len(text) > _LONGEST or "".join(tokens) != text.replace(" ", ""):
        raise _wrong(text)
    found, at = _listed(tokens, 0, 0, text)
    if at != len(tokens):
        raise _wrong(text)
    return found


def _listed(tokens: list[str], at: int, depth: int, text: str) -> tuple[Selector, int]:
    """Return the names with commas between them, from a place on; and where they end."""
    found: Selector = {}
    while True:
        at = _path(tokens, at, depth, found, text)
        if at == len(tokens) or tokens[at] != ",":
            return found, at
        at += 1


def _path(tokens: list[str], at: int, depth: int, found: Selector, text: str) -> int:
    """Return one name with what is wanted of it: ``a/b`` and ``a(b,c)``."""
    if depth > _DEEPEST or at == len(tokens) or tokens[at] in {",", "(", ")", "/"}:
        raise _wrong(text)
    inner = found.setdefault(tokens[at], {})
    at += 1
    if at == len(tokens):
        return at
    if tokens[at] == "/":
        return _path(tokens, at + 1, depth + 1, inner, text)
    if tokens[at] != "(":
        return at
    more, at = _listed(tokens, at + 1, depth + 1, text)
    if at == len(tokens) or tokens[at] != ")":
        raise _wrong(text)
    inner.update(more)
    return at + 1


def _wrong(text: str) -> ApiError:
    return ApiError("INVALID_ARGUMENT", f"Invalid field selection {text[:80]}; such as: jobs(jobId,state)")
