"""What somebody sent, as a log may have it: without secrets, each text and the whole of a bounded size.

Secret is what has the form of a secret (``encamp.redaction``), and here, where nothing is lost by it, also what goes by
the name of one: ``password=x``, ``--api-key x``, ``{"token": "x"}``.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from encamp.redaction import MASK, redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Where something was left out, and what.
LEFT_OUT: Final = "encamp.leftOut"
#: Characters of JSON of the whole, of a text in it, of a name, entries of a list or object, and depth.
_LONGEST: Final = 20_000
_LONGEST_TEXT: Final = 2_000
_LONGEST_NAME: Final = 500
_MOST_ENTRIES: Final = 200
_DEEPEST: Final = 20
#: Beyond this a text is not even looked through.
_LONGEST_SEEN: Final = 100_000

_SECRET_WORDS: Final = frozenset(
    {"password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "credentials", "apikey", "privatekey"}
)
_SECRET_PAIRS: Final = frozenset({("api", "key"), ("access", "key"), ("private", "key"), ("account", "key")})
#: The token of a page lets nobody in.
_NO_SECRETS: Final = frozenset({"pageToken", "nextPageToken", "page_token", "next_page_token"})
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ASSIGNED: Final = re.compile(r"(-{0,2}[A-Za-z][A-Za-z0-9_.-]{0,60}=)(.+)", re.DOTALL)
_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{0,60}")


def bounded(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of JSON data within every bound; what is too long as a whole is left out and told."""
    found = _object(data, _DEEPEST)
    length = len(json.dumps(found))
    return found if length <= _LONGEST else {LEFT_OUT: f"{length} characters"}


def bounded_text(text: str) -> str:
    """A text without secrets, cut to 2000 characters."""
    return _short(text, _LONGEST_TEXT)


def bounded_name(text: str) -> str:
    """A name, cut to 500 characters."""
    return _short(text, _LONGEST_NAME)


def is_secret_name(name: str) -> bool:
    """Whether something goes by the name of a secret: ``--api-key``, ``dbPassword``."""
    words = [word.lower() for word in _WORDS.findall(name[:_LONGEST_NAME])]
    pairs = itertools.pairwise(words)
    return name not in _NO_SECRETS and (not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairs))


def _object(data: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    first = list(data.items())[:_MOST_ENTRIES]
    shown = {bounded_name(str(key)): _field(str(key), value, depth) for key, value in first}
    return shown | ({LEFT_OUT: f"{len(data) - len(first)} more fields"} if len(data) > len(first) else {})


def _field(key: str, value: Any, depth: int) -> Any:
    return MASK if is_secret_name(key) and value not in (None, "") else _value(value, depth - 1)


def _value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _assigned(value)
    if isinstance(value, dict):
        return _object(value, depth) if depth > 0 else LEFT_OUT
    if isinstance(value, list):
        return list(_entries(value, depth)) if depth > 0 else LEFT_OUT
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return bounded_text(str(value))


def _entries(values: list[Any], depth: int) -> Iterator[Any]:
    first = values[:_MOST_ENTRIES]
    for before, value in zip([None, *first], first, strict=False):
        option = isinstance(before, str) and _OPTION.fullmatch(before) is not None and is_secret_name(before)
        follows = option and isinstance(value, str) and not value.startswith("-")
        yield MASK if follows else _value(value, depth - 1)
    if len(values) > len(first):
        yield f"{len(values) - len(first)} more"


def _assigned(text: str) -> str:
    found = _ASSIGNED.fullmatch(text)
    return f"{found[1]}{MASK}" if found and is_secret_name(found[1]) else bounded_text(text)


def _short(text: str, longest: int) -> str:
    if len(text) > _LONGEST_SEEN:
        return f"{LEFT_OUT}: {len(text)} characters"
    # JSON in ASCII writes every control character as an escape but this one.
    found = redacted(text).replace("\x7f", "\ufffd")
    return found if len(found) <= longest else f"{found[:longest]}... ({len(found)} characters)"
