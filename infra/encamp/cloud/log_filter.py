"""Cloud Logging's query language, as far as encamp and gcloud use it: all but regular expressions and functions.

A filter can be asked for what an entry that matches must have, so that whoever keeps entries need not read them all.
Source: cloud.google.com/logging/docs/view/logging-query-language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from encamp.filter_grammar import FilterBuilder, filter_grammar
from encamp.grammar import GrammarError, TooDeepError, TooLongError

if TYPE_CHECKING:
    from lark import Token

Matcher = Callable[[dict[str, Any]], bool]

#: Longest filter in characters, as the service has it, and deepest nesting of parentheses.
LONGEST, DEEPEST = 20_000, 50
#: The first and the last instant there is, as ``instant`` writes them.
FIRST, LAST = "", "9999-12-31T23:59:59.999999999"

#: A path of fields, whose parts may stand in quotes, or a value without special characters.
_WORD: Final = r"""[^\s=<>:!()"]+(?:"[^"]*"[^\s=<>:!()"]*)*"""
_SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
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
    if len(text) <= LONGEST and not text.strip():
        return _Every(())
    try:
        return _GRAMMAR.parse(text)
    except TooLongError:
        raise FilterError(f"it is longer than {LONGEST} characters") from None
    except TooDeepError:
        raise FilterError(f"it nests deeper than {DEEPEST}") from None
    except GrammarError as error:
        raise FilterError(_problem(error)) from None


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


class _Conditions(FilterBuilder[Filter]):
    """Conditions on log entries."""

    def compare(self, field: Token, sign: Token, value: str) -> Filter:
        if sign in ("=~", "!~"):
            raise FilterError(f"regular expressions ({sign}) are not served here")
        wanted = instant(str(value)) if field in _TIMES and sign != ":" else str(value)
        return _Comparison(str(field), str(sign), wanted)

    def all_of(self, parts: tuple[Filter, ...]) -> Filter:
        return _Every(parts)

    def any_of(self, parts: tuple[Filter, ...]) -> Filter:
        return _Either(parts)

    def negate(self, part: Filter) -> Filter:
        return _Not(part)


_GRAMMAR: Final = filter_grammar(
    _Conditions(),
    field=_WORD,
    sign="=~|!~|>=|<=|!=|[=<>:]",
    value=_WORD,
    text=r'''"(?:[^"\\]|\\.)*"''',
    longest=LONGEST,
    deepest=DEEPEST,
)


def _problem(error: GrammarError) -> str:
    if not error.found:
        return "it ends too early"
    if not error.expected:
        return f"unexpected text at {error.at}"
    return f"{error.previous} needs a comparison" if "SIGN" in error.expected else f"unexpected {error.found}"


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
