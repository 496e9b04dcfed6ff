"""Limits of IAM on conditions and policies, as pure rules: for plans, and for the sandbox's own IAM.

A problem names its rule by the id that the table of beliefs holds. The rules of conditions are those that Google's
linter reports as errors: a policy that breaks one is refused.
Sources: docs.cloud.google.com/iam/docs/linting-policies and docs.cloud.google.com/iam/quotas, read on 2026-11-22.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Elements of the list that ``hasOnly`` is given.
MOST_IN_LIST = 10
#: Logical operators (``&&``, ``||``, ``!``) of one expression.
MOST_OPERATORS = 12
#: Appearances of principals in a policy, and different groups in it; a domain counts as often as it appears.
MOST_PRINCIPALS, MOST_GROUPS = 1500, 250
#: Bindings of one role and one principal in a policy that differ in their conditions alone.
MOST_CONDITIONS = 20

_GRANTS = "iam.googleapis.com/modifiedGrantsByRole"
#: Strings are taken whole, so that no sign inside of one counts.
_TOKEN = re.compile(r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[\w.]+)|&&|\|\||[!=<>]=|\S""")
_OPENING, _CLOSING = {"(", "["}, {")", "]"}
_CONSTANT = re.compile(r"-?[0-9][0-9.]*|true|false")


class Broken(NamedTuple):
    """A broken limit: the id of its rule, and the problem."""

    rule: str
    message: str


class PolicyBinding(NamedTuple):
    """One role for some members of a policy; ``expression`` is its condition's, None without one."""

    role: str
    members: Sequence[str]
    expression: str | None = None


def expression_problems(expression: str) -> Iterator[Broken]:
    """Yield every limit that a condition's expression breaks."""
    tokens = [found.group() for found in _TOKEN.finditer(expression)]
    operators = sum(token in {"&&", "||", "!"} for token in tokens)
    if operators > MOST_OPERATORS:
        message = f"has {operators} logical operators; IAM takes {MOST_OPERATORS}"
        yield Broken("iam-condition-operators", message)
    for at, token in enumerate(tokens):
        if token.rpartition(".")[2] == "hasOnly" and tokens[at + 1 : at + 3] == ["(", "["]:
            yield from _list_problems(_elements(tokens[at + 3 :]))
        if token.strip("\"'") == _GRANTS and tokens[at + 1 : at + 4] != [",", "[", "]"]:
            yield Broken("iam-grants-default", f"asks for {_GRANTS} with another default than []")


def policy_problems(bindings: Iterable[PolicyBinding], exempted: Iterable[str] = ()) -> Iterator[Broken]:
    """Yield every limit that an allow policy breaks, including those of its conditions' expressions.

    ``exempted`` are the members of its audit configs, as often as they appear there.
    """
    bindings = list(bindings)
    for binding in bindings:
        if binding.expression is not None:
            yield from expression_problems(binding.expression)
    named = [member for binding in bindings for member in binding.members]
    principals = len(named) + len(list(exempted))
    if principals > MOST_PRINCIPALS:
        message = f"names {principals} principals, counting each as often as it appears; IAM takes {MOST_PRINCIPALS}"
        yield Broken("iam-policy-principals", message)
    groups = len({member for member in named if member.startswith("group:")})
    groups += sum(member.startswith("domain:") for member in named)
    if groups > MOST_GROUPS:
        yield Broken("iam-policy-groups", f"names {groups} groups and domains; IAM takes {MOST_GROUPS}")
    yield from _repeated(bindings)


def _repeated(bindings: Iterable[PolicyBinding]) -> Iterator[Broken]:
    different = {(binding.role, member, binding.expression) for binding in bindings for member in set(binding.members)}
    counts = Counter((role, member) for role, member, expression in different if expression is not None)
    for (role, member), count in sorted(counts.items()):
        if count > MOST_CONDITIONS:
            message = f"gives {member} {role} under {count} different conditions; IAM takes {MOST_CONDITIONS}"
            yield Broken("iam-conditions-of-one-member", message)


def _list_problems(elements: Sequence[Sequence[str]]) -> Iterator[Broken]:
    if len(elements) > MOST_IN_LIST:
        message = f"gives hasOnly a list of {len(elements)} elements; IAM takes {MOST_IN_LIST}"
        yield Broken("iam-has-only-length", message)
    if any(len(element) != 1 or not _is_constant(element[0]) for element in elements):
        yield Broken("iam-has-only-constants", "gives hasOnly a list with an element that is no constant")


def _elements(tokens: Sequence[str]) -> list[list[str]]:
    """Split the tokens after an opening bracket into the elements of its list."""
    elements: list[list[str]] = [[]]
    depth = 0
    for sign in tokens:
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if depth < 0:
            break
        if sign == "," and depth == 0:
            elements.append([])
        else:
            elements[-1].append(sign)
    return [element for element in elements if element]


def _is_constant(token: str) -> bool:
    return token[0] in "\"'" or _CONSTANT.fullmatch(token) is not None
