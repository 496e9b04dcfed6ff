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
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Final

from lark import Token, Transformer, Tree
from lark.exceptions import VisitError

from encamp.grammar import Grammar, GrammarError, TooDeepError, TooLongError

if TYPE_CHECKING:
    from collections.abc import Callable

_RULES: Final = r"""
    ?start: either
    ?either: both (_OR both)*
    ?both: comparison (_AND comparison)*
    ?comparison: _value (ORDER _value)?
    _value: negation | _operand
    negation: NOT+ _operand
    _operand: _LPAR either _RPAR | attribute | method | _owner
    _owner: call | string | texts
    attribute: name
    method: _owner "." NAME _arguments
    call: name _arguments
    _arguments: _LPAR (string | texts) ("," (string | texts))* _RPAR
    name: NAME ("." NAME)*
    texts: "[" (string ("," string)*)? "]"
    string: STRING
    _OR: "||"
    _AND: "&&"
    NOT: "!"
    ORDER: /[!=<>]=|[<>]/
    _LPAR: "("
    _RPAR: ")"
    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/
    %ignore /\s+/
"""
_GRAMMAR: Final = Grammar(_RULES, longest=100_000, deepest=50)
#: Rules whose parts logical operators join.
_JOINED: Final = frozenset({"either", "both", "negation"})
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
    try:
        value = _Values(attributes).transform(parse(expression))
    except VisitError as error:
        raise error.orig_exc from None
    if not isinstance(value, bool):
        raise ConditionError("the condition is not a boolean")
    return value


@lru_cache(maxsize=256)
@lru_cache(maxsize=256)
def parse(expression: str) -> Tree[Token]:
    """Return the syntax tree of a condition.

    Raises:
        ConditionError: it cannot be read.
    """
    try:
        return _GRAMMAR.parse(expression)
    except TooLongError as error:
        raise ConditionError(f"the condition is too long: {error}") from None
    except TooDeepError:
        raise ConditionError("the condition is nested too deeply") from None
    except GrammarError as error:
        raise ConditionError(f"unexpected {expression[error.at : error.at + 20] or 'end'}") from None


def count_operators(condition: Tree[Token]) -> int:
    """Return the number of logical operators in a condition."""
    return sum(len(part.children) - 1 for part in condition.iter_subtrees() if part.data in _JOINED)


def longest_has_only(condition: Tree[Token]) -> int:
    """Return the number of elements in the longest list of a ``hasOnly``; 0 if there is none."""
    methods = condition.find_pred(lambda part: part.data == "method" and part.children[1] == "hasOnly")
    arguments = [one for method in methods for one in method.children[2:]]
    return max((len(one.children) for one in arguments if isinstance(one, Tree)), default=0)


class _Values(Transformer[Token, Any]):
    """Values of a condition's parts for one request; a method a rule of the grammar."""

    def __init__(self, attributes: Attributes) -> None:
        super().__init__()
        self._attributes = attributes

    def either(self, parts: list[Any]) -> Any:
        return reduce(lambda left, right: left or right, parts)

    def both(self, parts: list[Any]) -> Any:
        return reduce(lambda left, right: left and right, parts)

    def negation(self, parts: list[Any]) -> bool:
        *negations, value = parts
        return bool(value) != bool(len(negations) % 2)

    def comparison(self, parts: list[Any]) -> bool:
        left, sign, right = parts
        try:
            return _COMPARE[sign](left, right)
        except TypeError as error:
            raise ConditionError("values of different types are compared") from error

    def attribute(self, parts: list[str]) -> Any:
        return self._value(parts[0])

    def method(self, parts: list[Any]) -> Any:
        owner, name, *arguments = parts
        return _apply(owner, name, arguments)

    def call(self, parts: list[Any]) -> Any:
        match parts:
            case ["api.getAttribute", str(name), default]:
                known = {
                    _OBJECT_LIST_PREFIX: self._attributes.list_prefix,
                    _MODIFIED_GRANTS: list(self._attributes.modified_roles),
                }
                return known.get(name, default)
            case ["timestamp", str(text)]:
                return _time(text)
        name, *arguments = parts
        owner, _, method = name.rpartition(".")
        return _apply(self._value(owner), method, arguments)

    def name(self, parts: list[Token]) -> str:
        return ".".join(parts)

    def texts(self, parts: list[str]) -> list[str]:
        return parts

    def string(self, parts: list[Token]) -> str:
        return _text(parts[0])

    def _value(self, name: str) -> Any:
        match name:
            case "resource.name":
                return self._attributes.resource_name
            case "resource.type":
                return self._attributes.resource_type
            case "resource.service":
                return "storage.googleapis.com"
            case "request.time":
                return datetime.now(UTC)
            case "true" | "false":
                return name == "true"
        raise ConditionError(f"unknown attribute {name}")


def _apply(value: Any, method: str, arguments: list[Any]) -> bool | str:
    match method, value, arguments:
        case "startsWith", str(), [str(start)]:
            return value.startswith(start)
        case "endsWith", str(), [str(end)]:
            return value.endswith(end)
        case "extract", str(), [str(template)]:
            return _extracted(value, template)
        case "hasOnly", list(), [list(allowed)]:
            return set(value) <= set(allowed)
    raise ConditionError(f"unknown function {method}")


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
