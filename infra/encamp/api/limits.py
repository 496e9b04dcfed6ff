"""Limits of request bodies: length, depth, time. A body is one JSON object in UTF-8, and its type says so.

A body of another type is refused also because browsers let every page send some types anywhere, JSON is not among them.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

#: Bytes of a body.
LARGEST_BODY: Final = 1 << 20
#: Lists and objects in each other; a Job has nine.
DEEPEST: Final = 50
#: From the first byte of a body to its last.
BODY_SECONDS: Final = 30.0


class ClientGoneError(Exception):
    """The client closed the request: nobody waits for an answer."""


async def read_body(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], length: str | None) -> bytes:
    """Return the whole body of a request; ``length`` is its Content-Length, None if it comes in chunks.

    Raises:
        ApiError: it is too long, or comes too slowly.
        ClientGoneError: nobody sends the rest.
    """
    if length is not None and length.isdecimal() and int(length[:20]) > LARGEST_BODY:
        raise _too_long()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                part = message.get("body", b"")
                size += len(part)
                if size > LARGEST_BODY:
                    raise _too_long()
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise ApiError("DEADLINE_EXCEEDED", f"The body did not come within {BODY_SECONDS:.0f} s.", code=408) from None


def json_object(body: bytes, content_type: str | None) -> dict[str, Any]:
    """Return the JSON object that a body is; an empty body is an empty object.

    Raises:
        ApiError: it is no JSON object.
    """
    if not body:
        return {}
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ApiError("INVALID_ARGUMENT", f"The body is {kind[:80]!r}; send application/json.")
    try:
        found = json.loads(body.decode(), parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise _no_json(f"byte {error.start} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"{error.msg} in line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise _no_json("a number has too many digits" if "digits" in str(error) else str(error)) from None
    if not isinstance(found, dict):
        raise ApiError("INVALID_ARGUMENT", "Invalid JSON payload received: the body must be an object, {...}.")
    _check_depth(found)
    return found


def _check_depth(found: Any) -> None:
    level, depth = [found], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise _too_deep()
        inner = [value for one in level for value in (one.values() if isinstance(one, dict) else one)]
        level = [value for value in inner if isinstance(value, (dict, list))]


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _too_deep() -> ApiError:
    return _no_json(f"more than {DEEPEST} lists and objects stand in each other")


def _too_long() -> ApiError:
    return ApiError("INVALID_ARGUMENT", f"The body is longer than {LARGEST_BODY} bytes.", code=413)


def _no_json(why: str) -> ApiError:
    return ApiError("INVALID_ARGUMENT", f"Invalid JSON payload received: {why}.")
