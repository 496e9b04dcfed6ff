"""Cloud Logging's query language, as far as encamp and gcloud use it: comparisons, AND, OR, NOT, parentheses.

A filter can be asked for what an entry that matches must have, so that whoever keeps entries need not read them all.
Source: cloud.google.com/logging/docs/view/logging-query-language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

Matcher = Callable[[dict[str, Any]], bool]

#: Longest filter in characters, as the service has it, and deepest nesting of parentheses.
LONGEST, DEEPEST = 20_000, 50
#: The first and the last instant there is, as ``instant`` writes them.
FIRST, LAST = "", "9999-12-31T23:59:59.999999999"

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<sign>=~|!~|>=|<=|!=|[=<>:()])|(?P<word>[^\s=<>:!()"]+(?:"[^"]*"[^\s=<>:!()"]*)*))"""
)
_SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_SIGNS = (">=", "<=", "!=", "=", "<", ">", ":")
_TIMES = ("timestamp", "receiveTimestamp")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class FilterError(ValueError):
    """A filter that cannot be read; its text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Unparseable filter: {why}.")


class Filter(Protocol):
    """A condition on log entries."""

    def matches(self, entry: dict[str, Any]) -> bool:
        """Whether an entry is."""
        ...

    def texts(self, path: str) -> frozenset[str] | None:
        """Return the texts that a field must equal one of; None if any may match."""
        ...

    def span(self) -> tuple[str, str]:
        """Return the first and the last ``timestamp`` that may match, as ``instant`` writes them."""
        ...


@dataclass(frozen=True)
class _Comparison:
    path: str
    sign: str
    wanted: str

    def matches(self, entry: dict[str, Any]) -> bool:
        return _compare(self.path, self.sign, _field(entry, self.path), self.wanted)

    def texts(self, path: str) -> frozenset[str] | None:
        return frozenset({self.wanted}) if self.sign == "=" and self.path == path else None

    def span(self) -> tuple[str, str]:
        if self.path != "timestamp" or self.sign in ("!=", ":"):
            return FIRST, LAST
        return (self.wanted if "<" not in self.sign else FIRST), (self.wanted if ">" not in self.sign else LAST)


@dataclass(frozen=True)
class _Every:
    parts: tuple[Filter, ...]

    def matches(self, entry: dict[str, Any]) -> bool:
        return all(part.matches(entry) for part in self.parts)

    def texts(self, path: str) -> frozenset[str] | None:
        found = [texts for part in self.parts if (texts := part.texts(path)) is not None]
        return frozenset.intersection(*found) if found else None

    def span(self) -> tuple[str, str]:
        spans = [part.span() for part in self.parts]
        return max((low for low, _ in spans), default=FIRST), min((high for _, high in spans), default=LAST)


@dataclass(frozen=True)
class _Either:
    parts: tuple[Filter, ...]

    def matches(self, entry: dict[str, Any]) -> bool:
        return any(part.matches(entry) for part in self.parts)

    def texts(self, path: str) -> frozenset[str] | None:
        found = [part.texts(path) for part in self.parts]
        return None if None in found else frozenset().union(*(texts for texts in found if texts is not None))

    def span(self) -> tuple[str, str]:
        spans = [part.span() for part in self.parts]
        return min(low for low, _ in spans), max(high for _, high in spans)


@dataclass(frozen=True)
class _Not:
    part: Filter

    def matches(self, entry: dict[str, Any]) -> bool:
        return not self.part.matches(entry)

    def texts(self, path: str) -> frozenset[str] | None:  # noqa: ARG002 - of the protocol
        return None

    def span(self) -> tuple[str, str]:
        return FIRST, LAST


def parsed(text: str) -> Filter:
    """Return a filter from its text; an empty one matches everything.

    Raises:
        FilterError: it cannot be read.
    """
    if len(text) > LONGEST:
        raise FilterError(f"it is longer than {LONGEST} characters")
    tokens: list[str] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if not found or not found.lastgroup:
            raise FilterError(f"unexpected text at {position}")
        tokens.append(found.group(found.lastgroup))
        position = found.end()
    if not tokens:
        return _Every(())
    parser = _Parser(tokens)
    result = parser.either()
    if parser.at < len(tokens):
        raise FilterError(f"unexpected {tokens[parser.at]}")
    return result


def matcher(text: str) -> Matcher:
    """Return a predicate on log entries.

    Raises:
        FilterError: the filter cannot be read.
    """
    return parsed(text).matches


def instant(text: str) -> str:
    """Return an RFC 3339 time of any precision and zone as text of one width, which sorts as the times do.

    Raises:
        FilterError: it is no RFC 3339 time.
    """
    found = _TIME.fullmatch(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)
    if found is None:
        raise FilterError(f"{text} is no RFC 3339 time")
    whole, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat(f"{whole.upper()}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise FilterError(f"{text} is no time") from error
    return f"{at:%Y-%m-%dT%H:%M:%S}.{fraction or '':0<9}"


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._depth = 0
        self.at = 0

    def _peek(self) -> str:
        return self._tokens[self.at] if self.at < len(self._tokens) else ""

    def _take(self) -> str:
        if self.at >= len(self._tokens):
            raise FilterError("it ends too early")
        self.at += 1
        return self._tokens[self.at - 1]

    def either(self) -> Filter:
        parts = [self._both()]
        while self._peek() == "OR":
            self._take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def _both(self) -> Filter:
        parts = [self._one()]
        while self._peek() not in ("", ")", "OR"):
            if self._peek() == "AND":
                self._take()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else _Every(tuple(parts))

    def _one(self) -> Filter:
        token = self._take()
        if token in ("NOT", "("):
            self._depth += 1
            if self._depth > DEEPEST:
                raise FilterError(f"it nests deeper than {DEEPEST}")
            inner = _Not(self._one()) if token == "NOT" else self.either()  # noqa: S105 - an operator
            if token == "(" and self._take() != ")":  # noqa: S105 - a parenthesis
                raise FilterError("a parenthesis is not closed")
            self._depth -= 1
            return inner
        sign = self._take()
        if sign in ("=~", "!~"):
            raise FilterError(f"regular expressions ({sign}) are not served here")
        if sign not in _SIGNS:
            raise FilterError(f"{token} needs a comparison")
        wanted = _unquote(self._take())
        return _Comparison(token, sign, instant(wanted) if token in _TIMES and sign != ":" else wanted)


def _unquote(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token


def _field(entry: dict[str, Any], path: str) -> Any:
    value: Any = entry
    for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', path):
        value = value.get(quoted or plain) if isinstance(value, dict) else None
    return value


def _compare(path: str, sign: str, value: Any, wanted: str) -> bool:
    if value is None:
        return sign == "!="
    if sign == ":":
        return wanted.lower() in str(value).lower() or wanted == "*"
    left: Any = str(value)
    right: Any = wanted
    if path == "severity" and wanted in _SEVERITIES and left in _SEVERITIES:
        left, right = _SEVERITIES.index(left), _SEVERITIES.index(wanted)
    elif path in _TIMES:
        left = _written(left)
    return {
        "=": left == right,
        "!=": left != right,
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
    }[sign]


def _written(text: str) -> str:
    """Return the same as ``instant`` of an entry's own time, which is in UTC."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9.9}"
