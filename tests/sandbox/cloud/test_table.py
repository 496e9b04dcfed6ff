"""The provider's table against the installed pulumi_gcp wheel: the wheel is the authority on names."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from pulumi import _types as wheel_types

from encamp.sandbox.cloud.gcp.functions import FUNCTIONS
from encamp.sandbox.cloud.gcp.table import TYPES

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import ResourceType

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("type_", TYPES.values(), ids=list(TYPES)),
    # The wheel's own: it warns of old names of its own when a module is imported.
    pytest.mark.filterwarnings(r"ignore:gcp\..* has been deprecated in favor of:DeprecationWarning"),
]


def names_of(type_: ResourceType) -> tuple[dict[str, Any], set[str]]:
    """Inputs with their types, and outputs, by Pulumi's names."""
    module = import_module(type_.wheel[0])
    arguments = getattr(module, f"{type_.wheel[1]}Args")
    resource = getattr(module, type_.wheel[1])
    inputs = wheel_types.input_type_types(arguments)
    return inputs, set(wheel_types.resource_py_to_pulumi_names(resource).values())


def test_the_token_is_the_wheels(type_: ResourceType) -> None:
    assert getattr(import_module(type_.wheel[0]), type_.wheel[1]).pulumi_type == type_.token


def test_every_name_is_in_the_wheel(type_: ResourceType) -> None:
    inputs, outputs = names_of(type_)
    read = {key for rule in type_.rules for key in rule.reads}
    given = {*type_.required, *read, *(key for key in (type_.autoname, type_.labels) if key)}
    assert given - set(inputs) == set()
    computed = {path.partition(".")[0] for path in type_.computed}
    assert {*computed, *type_.defaults, *getattr(type_.backend, "defaults", {})} - outputs == set()


def test_every_immutable_path_is_in_the_wheel(type_: ResourceType) -> None:
    inputs, _ = names_of(type_)
    for path in (*type_.immutable, *type_.mutable):
        top, _, below = path.partition(".")
        assert top in inputs, path
        if below:
            nested = next(part for part in _parts(inputs[top]) if wheel_types.is_input_type(part))
            assert below in wheel_types.input_type_py_to_pulumi_names(nested).values(), path


def _parts(type_: Any) -> list[type]:
    inner = getattr(type_, "__args__", ())
    found = [part for item in inner for part in _parts(item)]
    return [*found, type_] if isinstance(type_, type) else found


def test_every_rule_names_its_source(type_: ResourceType) -> None:
    for rule in type_.rules:
        assert re.match(r"(cloud\.google\.com|github\.com)/|docs/decisions/", rule.source)


def test_functions_exist_in_the_wheel(type_: ResourceType) -> None:
    del type_
    for token in FUNCTIONS:
        _, path, name = token.split(":")
        python = re.sub(r"(?<!^)([A-Z])", lambda found: f"_{found[1].lower()}", name)
        assert hasattr(import_module(f"pulumi_gcp.{path.split('/')[0]}"), python)
