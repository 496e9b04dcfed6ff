"""JSON bodies by dotted paths: reading, setting, merging, and changes of the fields that a mask names."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SNAKE = re.compile(r"_([a-z0-9])")


def at(body: Any, path: str) -> Any:
    """Return the value at a dotted path, None if it or anything above it is missing."""
    for key in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(key)
    return body


def put(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path; None removes it."""
    *above, last = path.split(".")
    for key in above:
        inner = body.get(key)
        body = body.setdefault(key, {}) if isinstance(inner, dict) or inner is None else inner
    if value is None:
        body.pop(last, None)
    else:
        body[last] = value


def default(body: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Set every dotted path that has no value yet."""
    for path, value in fields.items():
        if at(body, path) is None and value is not None:
            put(body, path, deepcopy(value))


def merged(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``body`` after a merge patch: null removes a field, an object is merged into (RFC 7396)."""
    result = dict(body)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def masked(body: Mapping[str, Any], patch: Mapping[str, Any], mask: str) -> dict[str, Any]:
    """Return ``body`` with a field mask's fields taken from ``patch``; those that the patch lacks are removed."""
    paths = [camel(path.strip()) for path in mask.split(",") if path.strip()]
    if not paths:
        raise GoogleError(400, "The update mask is empty.", belief="api-updates-name-fields")
    if paths == ["*"]:
        return {**body, **patch}
    result = deepcopy(dict(body))
    for path in paths:
        put(result, path, deepcopy(at(dict(patch), path)))
    return result


def camel(path: str) -> str:
    """Return a path of a field mask in the JSON's spelling: ``access_config.network`` is ``accessConfig.network``."""
    return _SNAKE.sub(lambda found: found[1].upper(), path)


def short(value: object) -> str:
    """Return the last part of a name, a full name or a URL."""
    return str(value).rstrip("/").rpartition("/")[2]
