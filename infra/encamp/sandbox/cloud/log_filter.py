"""The logging query language, as far as the sandbox needs it: comparisons, AND, OR, NOT, parentheses.

Source: cloud.google.com/logging/docs/view/logging-query-language.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from encamp.sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import Callable

    Matcher = Callable[[dict[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<sign>>=|<=|!=|[=<>:()])|(?P<word>[^\s=<>:!()"]+(?:"[^"]*"[^\s=<>:!()"]*)*))"""
)
_SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_SIGNS = (">=", "<=", "!=", "=", "<", ">", ":")


def matcher(text: str) -> Matcher:
    """A predicate on log entries.

    Raises:
        GoogleError: 400, the filter cannot be read.
    """
    tokens: list[str] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if not found or not found.lastgroup:
            raise GoogleError(400, f"Unparseable filter: unexpected text at {position}.")
        tokens.append(found.group(found.lastgroup))
        position = found.end()
    if not tokens:
        return lambda _: True
    parser = _Parser(tokens)
    result = parser.either()
    if parser.at < len(tokens):
        raise GoogleError(400, f"Unparseable filter: unexpected {tokens[parser.at]}.")
    return result


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self.at = 0

    def _peek(self) -> str:
        return self._tokens[self.at] if self.at < len(self._tokens) else ""

    def _take(self) -> str:
        if self.at >= len(self._tokens):
            raise GoogleError(400, "Unparseable filter: it ends too early.")
        self.at += 1
        return self._tokens[self.at - 1]

    def either(self) -> Matcher:
        parts = [self._both()]
        while self._peek() == "OR":
            self._take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda entry: any(part(entry) for part in parts)

    def _both(self) -> Matcher:
        parts = [self._one()]
        while self._peek() not in ("", ")", "OR"):
            if self._peek() == "AND":
                self._take()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda entry: all(part(entry) for part in parts)

    def _one(self) -> Matcher:
        token = self._take()
        if token == "NOT":  # noqa: S105 - an operator
            inner = self._one()
            return lambda entry: not inner(entry)
        if token == "(":  # noqa: S105 - a parenthesis
            inner = self.either()
            if self._take() != ")":
                raise GoogleError(400, "Unparseable filter: a parenthesis is not closed.")
            return inner
        sign = self._take()
        if sign not in _SIGNS:
            raise GoogleError(400, f"Unparseable filter: {token} needs a comparison.")
        wanted = _unquote(self._take())
        return lambda entry: _compare(token, sign, _field(entry, token), wanted)


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
    elif path in ("timestamp", "receiveTimestamp"):
        left, right = _instant(left), _instant(right)
    return {
        "=": left == right,
        "!=": left != right,
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
    }[sign]


def _instant(text: str) -> str:
    """A UTC time of any precision as text of one width."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9.9}"
