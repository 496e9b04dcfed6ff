"""The official provider's checks of inputs before it calls the API, by a type's schema."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.provider import UNKNOWN, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp_sandbox.gcp_provider.schema import Property
    from encamp_sandbox.provider import Properties

_TEXTS = ("string", "list of string", "set of string")


def failures(fields: Mapping[str, Property], inputs: Properties) -> Iterator[Failure]:
    """Yield every problem of a resource's inputs."""
    for name, one in fields.items():
        if one.required and inputs.get(name) is None and not one.autoname:
            yield Failure(name, f'missing required property "{name}"')
    yield from _object(fields, inputs, "", inputs)


def _object(fields: Mapping[str, Property], given: Mapping[str, Any], path: str, root: Properties) -> Iterator[Failure]:
    for name, value in given.items():
        where = f"{path}.{name}" if path else name
        if value is None or name.startswith("__"):
            continue
        known = fields.get(name)
        if known is None or not known.is_input:
            yield Failure(where, f"unknown property {where}")
            continue
        yield from _value(known, value, where, root)
    for name, one in fields.items():
        where = f"{path}.{name}" if path else name
        if path and one.required and given.get(name) is None:
            yield Failure(where, f'missing required property "{where}"')
        yield from _together(one, where, root)


def _value(known: Property, value: Any, where: str, root: Properties) -> Iterator[Failure]:
    if value is UNKNOWN:
        return
    if known.kind == "block":
        if isinstance(value, dict):
            yield from _object(known.fields, value, where, root)
        return
    if known.kind in ("blocks", "blockset"):
        for one in value if isinstance(value, list) else ():
            if isinstance(one, dict):
                yield from _object(known.fields, one, where, root)
        return
    for one in value if isinstance(value, list) else [value]:
        if one is not UNKNOWN and (problem := _problem(known, one, where)):
            yield Failure(where, problem)


def _problem(known: Property, value: Any, where: str) -> str | None:
    if known.choices and value not in known.choices:
        return f"expected {where} to be one of {list(known.choices)}, got {value}"
    if known.pattern and known.kind in _TEXTS and not re.search(known.pattern, str(value)):
        return f'"{where}" ("{value}") doesn\'t match regexp "{known.pattern}"'
    if isinstance(value, int | float) and not isinstance(value, bool):
        if known.least is not None and value < known.least:
            return f"expected {where} to be at least ({known.least}), got {value}"
        if known.most is not None and value > known.most:
            return f"expected {where} to be at most ({known.most}), got {value}"
    return None


def _together(known: Property, where: str, root: Properties) -> Iterator[Failure]:
    """Yield failures of rules between properties; paths through lists are not followed."""
    if _given(root, where):
        for other in known.conflicts:
            if _given(root, other):
                yield Failure(where, f'"{where}": conflicts with {other}')
    if known.exactly_one and known.exactly_one[0] == where and _reachable(root, known.exactly_one):
        count = sum(_given(root, one) for one in known.exactly_one)
        if count != 1:
            yield Failure(where, f"exactly one of {' and '.join(known.exactly_one)} has to be given")
    first = known.at_least_one[0] if known.at_least_one else None
    if (
        first == where
        and _reachable(root, known.at_least_one)
        and not any(map(partial(_given, root), known.at_least_one))
    ):
        yield Failure(where, f"at least one of {', '.join(known.at_least_one)} has to be given")


def _reachable(root: Properties, paths: tuple[str, ...]) -> bool:
    """Whether the objects that hold the properties are there at all."""
    return all("." not in path or _given(root, path.rpartition(".")[0]) for path in paths)


def _given(root: Any, path: str) -> bool:
    for key in path.split("."):
        if not isinstance(root, dict):
            return root is UNKNOWN
        root = root.get(key)
    return root is not None
