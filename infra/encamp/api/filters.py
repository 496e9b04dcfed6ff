"""The filter of a list of jobs: its language, and errors with their place.

The language is that of AIP-160 as far as one can filter a Job by it: comparisons of a field with a value, joined by AND
(or a space), OR (which binds closer), NOT (or -) and parentheses. A value of ``:`` or ``=`` may hold ``*``, which
stands for any text. A field that a job has not lets nothing through, whatever it is compared with; NOT turns that
round. Source: google.aip.dev/160; the job model, section 1.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.api.comparing import Comparison, comparison
from encamp.api.errors import wrong_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.api.errors import ApiError

_LONGEST: Final = 2000
_DEEPEST: Final = 20
_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<sign><=|>=|!=|[=<>:()])
    |(?P<word>-(?=[^\s"'=<>:()!])|[^\s"'=<>:()!]+)""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORDS: Final = ("AND", "OR", "NOT", "-")
_SIGNS: Final = ("=", "!=", "<", "<=", ">", ">=", ":")


def parse_filter(text: str) -> Comparison:
    """Return the predicate of a filter; an empty one lets everything through.

    Raises:
        ApiError: INVALID_ARGUMENT, with the place in the filter that cannot be read, counted from 1.
    """
    if len(text) > _LONGEST:
        raise _wrong(_LONGEST, f"it has {len(text)} characters, more than {_LONGEST}")
    tokens = list(_tokens(text))
    if not tokens:
        return bool
    return _Parser(tokens, len(text)).parse()


@dataclass(frozen=True)
class _Token:
    kind: str
    value: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            what = "a quote is not closed" if text[at] in "\"'" else f"{text[at]!r} cannot stand here"
            raise _wrong(at + 1, what)
        kind = found.lastgroup or ""
        value = found.group()
        if kind == "text":
            value = _ESCAPED.sub(r"\1", value[1:-1])
        if kind != "space":
            yield _Token(kind, value, at + 1)
        at = found.end()


class _Parser:
    """expression = sequence {AND sequence}; sequence = factor {factor}; factor = term {OR term}."""

    def __init__(self, tokens: list[_Token], length: int) -> None:
        self._tokens = tokens
        self._end = length + 1
        self._next = 0

    def parse(self) -> Comparison:
        found = self._expression(0)
        left = self._peek()
        if left is not None:
            raise _wrong(left.at, f"{left.value!r} is not expected here")
        return found

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _is(self, kind: str, value: str) -> bool:
        token = self._peek()
        return token is not None and (token.kind, token.value) == (kind, value)

    def _taken(self, kind: str, value: str) -> bool:
        if self._is(kind, value):
            self._next += 1
            return True
        return False

    def _expression(self, depth: int) -> Comparison:
        parts = [self._factor(depth)]
        while (token := self._peek()) is not None and (token.kind, token.value) != ("sign", ")"):
            self._taken("word", "AND")
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else lambda job: all(part(job) for part in parts)

    def _factor(self, depth: int) -> Comparison:
        parts = [self._term(depth)]
        while self._taken("word", "OR"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else lambda job: any(part(job) for part in parts)

    def _term(self, depth: int) -> Comparison:
        turned = False
        while self._taken("word", "NOT") or self._taken("word", "-"):
            turned = not turned
        found = self._group(depth) if self._taken("sign", "(") else self._comparison()
        return (lambda job: not found(job)) if turned else found

    def _group(self, depth: int) -> Comparison:
        if depth == _DEEPEST:
            raise _wrong(self._tokens[self._next - 1].at, f"more than {_DEEPEST} parentheses stand in each other")
        found = self._expression(depth + 1)
        if not self._taken("sign", ")"):
            raise _wrong(self._end, "a parenthesis is not closed")
        return found

    def _comparison(self) -> Comparison:
        field = self._field()
        sign = self._peek()
        if sign is None or sign.kind != "sign" or sign.value not in _SIGNS:
            at = sign.at if sign is not None else self._end
            raise _wrong(at, f"after {field.value[:40]!r} one of {' '.join(_SIGNS)} is expected")
        self._next += 1
        value = self._value(sign)
        try:
            return comparison(field.value, sign.value, value.value)
        except ValueError as error:
            raise _wrong(field.at, str(error)) from None

    def _field(self) -> _Token:
        token = self._peek()
        if token is None or token.kind == "sign" or (token.kind == "word" and token.value in _WORDS):
            raise _wrong(token.at if token is not None else self._end, "a field is expected, such as jobId")
        self._next += 1
        return token

    def _value(self, sign: _Token) -> _Token:
        """Return a value.

        One without quotes goes on to the next space, since times and URIs hold what separates elsewhere.
        """
        token = self._peek()
        if token is None or token.kind == "sign":
            raise _wrong(token.at if token is not None else self._end, f"a value is expected after {sign.value}")
        self._next += 1
        value, end = token.value, token.at + len(token.value)
        while token.kind == "word" and (more := self._peek()) is not None and more.at == end:
            if more.kind == "text" or more.value in {"(", ")"}:
                break
            value, end = value + more.value, end + len(more.value)
            self._next += 1
        return _Token(token.kind, value, token.at)


def _wrong(at: int, what: str) -> ApiError:
    message = f"the filter cannot be read at character {at}: {what}; such as: jobId:rnn* AND state:FAILED"
    return wrong_field("filter", message)
