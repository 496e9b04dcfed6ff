"""The provider's schemas against the installed pulumi_gcp wheel: the wheel is the authority on names."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from pulumi import _types as wheel_types

from encamp_sandbox.gcp_provider.functions import FUNCTIONS
from encamp_sandbox.gcp_provider.table import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp_sandbox.gcp_provider.model import ResourceType
    from encamp_sandbox.gcp_provider.schema import Property

pytestmark = [
    pytest.mark.slow,
    # The wheel warns of its own deprecated names when a module is imported.
    pytest.mark.filterwarnings(r"ignore:gcp\..* has been deprecated in favor of:DeprecationWarning"),
]
#: Properties that the wheel has and the provider release that the schemas are of has not. Ours refuses them.
UNSERVED = ("bestEffortProvisioning", "additionalNodeNetworkConfigs.stackType")
of_every_type = pytest.mark.parametrize("type_", TYPES.values(), ids=list(TYPES))


def wheel(type_: ResourceType) -> tuple[Any, Any]:
    """The class of a resource and the class of its arguments."""
    module, name = type_.token.split(":")[1].partition("/")[0], type_.token.rpartition(":")[2]
    found = import_module(f"pulumi_gcp.{module}")
    return getattr(found, name), getattr(found, f"{name}Args")


@of_every_type
def test_the_token_is_the_wheels(type_: ResourceType) -> None:
    assert wheel(type_)[0].pulumi_type == type_.token


@of_every_type
def test_inputs_and_outputs_are_the_wheels(type_: ResourceType) -> None:
    resource, arguments = wheel(type_)
    fields = type_.schema.fields
    inputs = {name for name, one in fields.items() if one.is_input}
    assert set(wheel_types.input_type_types(arguments)) - inputs <= set(UNSERVED)
    assert inputs <= set(wheel_types.input_type_types(arguments))
    assert set(wheel_types.resource_py_to_pulumi_names(resource).values()) - set(fields) <= set(UNSERVED)
    assert set(fields) <= set(wheel_types.resource_py_to_pulumi_names(resource).values())


@of_every_type
def test_required_inputs_are_the_wheels(type_: ResourceType) -> None:
    _, arguments = wheel(type_)
    names = wheel_types.input_type_py_to_pulumi_names(arguments)
    signature = inspect.signature(arguments.__init__).parameters.values()
    required = {names[one.name] for one in signature if one.name in names and one.default is inspect.Parameter.empty}
    assert {name for name, one in type_.schema.fields.items() if one.required and not one.autoname} == required


@of_every_type
def test_objects_inside_have_the_wheels_names(type_: ResourceType) -> None:
    _, arguments = wheel(type_)
    assert list(_strangers(type_.schema.fields, wheel_types.input_type_types(arguments), "")) == []


def _strangers(fields: Mapping[str, Property], types: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of inputs inside objects that the wheel does not have, or has and the schema lacks."""
    for name, one in fields.items():
        if not one.is_input or not one.fields:
            continue
        where = f"{path}{name}."
        nested = next((part for part in _parts(types[name]) if wheel_types.is_input_type(part)), None)
        if nested is None:
            yield f"{where} is no object"
            continue
        known = wheel_types.input_type_types(nested)
        # Computed properties of objects are arguments in the wheel, too.
        found = (where + inner for inner in set(one.fields) ^ set(known))
        yield from sorted(path for path in found if not path.endswith(UNSERVED))
        yield from _strangers({key: inner for key, inner in one.fields.items() if key in known}, known, where)


def _parts(type_: Any) -> list[type]:
    inner = getattr(type_, "__args__", ())
    found = [part for item in inner for part in _parts(item)]
    return [*found, type_] if isinstance(type_, type) else found


@pytest.mark.parametrize("token", FUNCTIONS)
def test_functions_are_the_wheels(token: str) -> None:
    _, path, name = token.split(":")
    python = re.sub(r"(?<!^)([A-Z])", lambda found: f"_{found[1].lower()}", name)
    assert hasattr(import_module(f"pulumi_gcp.{path.split('/')[0]}"), python)
