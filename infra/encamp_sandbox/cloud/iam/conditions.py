"""IAM conditions: the part of the Common Expression Language that bindings of environments and jobs use.

Known: ``resource.name``, ``resource.type``, ``resource.service``, ``request.time``,
``api.getAttribute("storage.googleapis.com/objectListPrefix", "")``,
``api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", [])``, ``timestamp("…")``, strings, ``startsWith``,
``endsWith``, ``extract``, lists of strings, ``hasOnly``, comparisons, ``&&``, ``||``, ``!`` and parentheses. Anything
else is refused when a policy is set.
Source: cloud.google.com/iam/docs/conditions-attribute-reference.
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"""
    r"""|(?P<sign>&&|\|\||[!=<>]=|[()!<>,.\[\]]))"""
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MODIFIED_GRANTS = "iam.googleapis.com/modifiedGrantsByRole"
_OBJECT_LIST_PREFIX = "storage.googleapis.com/objectListPrefix"
_PLACEHOLDER = re.compile(r"\{[A-Za-z0-9_]+\}")
_DEEPEST = 50


class ConditionError(ValueError):
    """The expression is not one of those that are known here."""


@dataclass(frozen=True)
class Attributes:
    """The attributes of a request for conditions; ``modified_roles`` are those whose members it would change."""

    resource_name: str
    resource_type: str
    list_prefix: str = ""
    modified_roles: tuple[str, ...] = ()


def holds(expression: str, attributes: Attributes) -> bool:
    """Whether a condition holds for a request.

    Raises:
        ConditionError: it cannot be read.
    """
    parser = _Parser(tokens(expression), attributes)
    value = parser.either()
    parser.end()
    if not isinstance(value, bool):
        raise ConditionError("the condition is not a boolean")
    return value


def tokens(text: str) -> list[tuple[str, str]]:
    """Return kind (``string``, ``name`` or ``sign``) and text of every token of an expression.

    Raises:
        ConditionError: a part of it is no token.
    """
    found: list[tuple[str, str]] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match or not match.lastgroup:
            raise ConditionError(f"unexpected text: {text[position : position + 20]}")
        found.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], attributes: Attributes) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._attributes = attributes

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ConditionError(f"unexpected {self._tokens[self._at][1]}")

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> tuple[str, str]:
        if self._at >= len(self._tokens) or expected not in (None, self._peek()):
            raise ConditionError(f"expected {expected or 'a value'}, found {self._peek() or 'the end'}")
        self._at += 1
        return self._tokens[self._at - 1]

    def either(self) -> Any:
        value = self._both()
        while self._peek() == "||":
            self._take()
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._comparison()
        while self._peek() == "&&":
            self._take()
            other = self._comparison()
            value = value and other
        return value

    def _comparison(self) -> Any:
        left = self._value()
        if self._peek() not in _COMPARE:
            return left
        compare = _COMPARE[self._take()[1]]
        try:
            return compare(left, self._value())
        except TypeError as error:
            raise ConditionError("values of different types are compared") from error

    def _value(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConditionError("the condition is nested too deeply")
        kind, text = self._take()
        if text == "!":
            value: Any = not self._value()
        elif text == "(":
            value = self.either()
            self._take(")")
        elif text == "[":
            value = self._methods(self._list())
        elif kind == "string":
            value = self._methods(_text(text))
        elif kind == "name":
            value = self._name(text)
        else:
            raise ConditionError(f"unexpected {text}")
        self._depth -= 1
        return value

    def _name(self, text: str) -> Any:
        if text == "api.getAttribute":
            name, default = self._arguments(2)
            known = {
                _OBJECT_LIST_PREFIX: self._attributes.list_prefix,
                _MODIFIED_GRANTS: list(self._attributes.modified_roles),
            }
            return self._methods(known.get(name, default))
        if text == "timestamp":
            return _time(self._arguments(1)[0])
        asked = {
            "resource.name": self._attributes.resource_name,
            "resource.type": self._attributes.resource_type,
            "resource.service": "storage.googleapis.com",
        }
        for name, value in asked.items():
            if text == name:
                return value
            if text.startswith(f"{name}."):
                return self._method(value, text.removeprefix(f"{name}."))
        if text == "request.time":
            return datetime.now(UTC)
        if text in ("true", "false"):
            return text == "true"
        raise ConditionError(f"unknown attribute {text}")

    def _methods(self, value: Any) -> Any:
        if self._peek() != ".":
            return value
        self._take(".")
        return self._method(value, self._take()[1])

    def _method(self, value: Any, method: str) -> bool | str:
        (argument,) = self._arguments(1)
        match method, value, argument:
            case "startsWith", str(), str():
                return value.startswith(argument)
            case "endsWith", str(), str():
                return value.endswith(argument)
            case "extract", str(), str():
                return _extracted(value, argument)
            case "hasOnly", list(), list():
                return set(value) <= set(argument)
        raise ConditionError(f"unknown function {method}")

    def _arguments(self, count: int) -> list[Any]:
        """Return strings, and lists of strings."""
        self._take("(")
        values: list[Any] = []
        while len(values) < count:
            if values:
                self._take(",")
            kind, text = self._take()
            if text == "[":
                values.append(self._list())
            elif kind == "string":
                values.append(_text(text))
            else:
                raise ConditionError(f"expected a string, found {text}")
        self._take(")")
        return values

    def _list(self) -> list[str]:
        """Return the strings of a list after its bracket."""
        found: list[str] = []
        while self._peek() != "]":
            if found:
                self._take(",")
            kind, text = self._take()
            if kind != "string":
                raise ConditionError(f"expected a string, found {text}")
            found.append(_text(text))
        self._take("]")
        return found


def _extracted(value: str, template: str) -> str:
    """Return the text at the place of the template's one placeholder; empty if the template does not fit.

    Source: cloud.google.com/iam/docs/conditions-attribute-reference#extract.
    """
    placeholder = _PLACEHOLDER.search(template)
    if placeholder is None:
        raise ConditionError(f"a template without a placeholder: {template}")
    before, after = template[: placeholder.start()], template[placeholder.end() :]
    _, found, rest = value.partition(before) if before else ("", value, value)
    if not found:
        return ""
    if not after:
        return rest
    inner, end, _ = rest.partition(after)
    return inner if end else ""


def _text(token: str) -> str:
    inner = token[1:-1] if token[0] == '"' else token[1:-1].replace('"', '\\"')
    try:
        return json.loads(f'"{inner}"')
    except ValueError as error:
        raise ConditionError(f"a string cannot be read: {token}") from error


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ConditionError(f"no RFC 3339 time: {text}") from error
