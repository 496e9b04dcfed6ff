"""Text of callers in a form for logs: without secrets, each text and the whole of a bounded size.

Secret is what has the form of a secret (``encamp.redaction``), and here, where nothing is lost by it, also what goes by
the name of one: ``password=x``, ``--api-key x``, ``{"token": "x"}``.
"""

from __future__ import annotations

import json
import math
import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from encamp.redaction import MASK, redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Mark of omitted text, and of the fields that were left out.
LEFT_OUT: Final = "encamp.leftOut"
#: Characters of JSON of the whole, of a text in it, of a name, entries of a list or object, and depth.
_LONGEST: Final = 15_000
_LONGEST_TEXT: Final = 1_000
_LONGEST_NAME: Final = 300
_MOST_ENTRIES: Final = 200
_DEEPEST: Final = 20
#: Characters of texts after which nothing more is copied; what a number, or the marks around a text, count.
_LONGEST_COPIED: Final = 12_000
_LONGEST_LITERAL: Final = 8
#: Beyond this a text is not even looked through.
_LONGEST_SEEN: Final = 20_000

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
    """Return a copy of JSON data within every bound: its beginning, where it is too long, and what was left out."""
    if not data:
        return {}
    found = _Copy().object(data, _DEEPEST)
    length = len(json.dumps(found))
    return found if length <= _LONGEST else {LEFT_OUT: f"{length} characters"}


def bounded_text(text: str) -> str:
    """Return a text without secrets, cut to 1000 characters."""
    return _short(text, _LONGEST_TEXT)


def bounded_name(text: str) -> str:
    """Return a name, cut to 300 characters."""
    return _short(text, _LONGEST_NAME)


def is_secret_name(name: str) -> bool:
    """Whether something goes by the name of a secret: ``--api-key``, ``dbPassword``."""
    words = [word.lower() for word in _WORDS.findall(name[:_LONGEST_NAME])]
    pairs = pairwise(words)
    return name not in _NO_SECRETS and (not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairs))


class _Copy:
    """Copies until it has seen so much that the whole would become too long."""

    def __init__(self) -> None:
        self._left = _LONGEST_COPIED

    def object(self, data: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """Return a copy of an object that may hold others ``depth`` levels deep."""
        shown: dict[str, Any] = {}
        for key, value in islice(data.items(), _MOST_ENTRIES):
            if self._left <= 0:
                break
            shown[self._text(str(key), _LONGEST_NAME)] = self._field(str(key), value, depth)
        return shown if len(shown) == len(data) else shown | {LEFT_OUT: f"{len(data) - len(shown)} fields"}

    def _field(self, key: str, value: Any, depth: int) -> Any:
        return MASK if is_secret_name(key) and value not in (None, "") else self._value(value, depth - 1)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            found = _ASSIGNED.fullmatch(value)
            secret = found is not None and is_secret_name(found[1])
            return f"{found[1]}{MASK}" if found and secret else self._text(value, _LONGEST_TEXT)
        if isinstance(value, dict):
            return self.object(value, depth) if depth > 0 else LEFT_OUT
        if isinstance(value, list):
            return list(self._entries(value, depth)) if depth > 0 else LEFT_OUT
        self._left -= _LONGEST_LITERAL
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        return self._text(str(value), _LONGEST_TEXT)

    def _entries(self, values: list[Any], depth: int) -> Iterator[Any]:
        option = False
        for index, value in enumerate(values):
            if self._left <= 0 or index == _MOST_ENTRIES:
                yield f"{LEFT_OUT}: {len(values) - index} entries"
                return
            text = value if isinstance(value, str) else ""
            yield MASK if option and text and not text.startswith("-") else self._value(value, depth - 1)
            option = _OPTION.fullmatch(text) is not None and is_secret_name(text)

    def _text(self, text: str, longest: int) -> str:
        found = _short(text, longest)
        self._left -= len(found) + _LONGEST_LITERAL
        return found


def _short(text: str, longest: int) -> str:
    if len(text) > _LONGEST_SEEN:
        return f"{LEFT_OUT}: {len(text)} characters"
    found = redacted(text)
    return found if len(found) <= longest else f"{found[:longest]}... ({len(found)} characters)"
