"""Every type of the provider by an example: made, read, changed, replaced and deleted as the official one does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.gcp_provider.conftest import INPUTS, good, plain

from encamp_sandbox.gcp_provider.table import TYPES
from encamp_sandbox.provider import ProviderError, ResourceState

if TYPE_CHECKING:
    from tests.sandbox.gcp_provider.conftest import Engine

pytestmark = pytest.mark.slow

of_every_type = pytest.mark.parametrize("token", INPUTS)
#: Types that the official provider does not import by their ids.
_NOT_IMPORTED = {"gcp:projects/iAMAuditConfig:IAMAuditConfig", "gcp:storage/bucketObject:BucketObject"}
#: Properties of the provider alone: they stand in no answer of an API.
_OF_THE_PROVIDER = {"deletionPolicy", "deletionProtection", "removeDefaultNodePool"}


def test_every_type_has_an_example() -> None:
    assert set(INPUTS) == set(TYPES)


@of_every_type
def test_a_preview_refuses_what_the_official_provider_refuses(engine: Engine, token: str) -> None:
    assert engine.failures(token, good(token)) == []
    for change, message in INPUTS[token]["refused"]:
        assert message in " ".join(engine.failures(token, good(token, change))), change


@of_every_type
def test_what_was_made_is_quiet_and_read_as_it_was_made(engine: Engine, token: str) -> None:
    state = engine.furnish(token)
    assert not engine.diff(token, state, state.inputs).changes
    found = engine.read(token, state)
    assert found is not None
    assert (found.inputs, found.resource_id) == (state.inputs, state.resource_id)
    assert plain(found.outputs) == state.outputs
    assert not engine.diff(
        token, ResourceState(state.resource_id, found.inputs, plain(found.outputs)), state.inputs
    ).changes


@of_every_type
def test_a_second_one_of_the_same_name(engine: Engine, token: str) -> None:
    first = engine.furnish(token)
    again = INPUTS[token].get("again", "refused")
    if again == "refused":
        with pytest.raises(
            ProviderError, match=r"Error (409|403): .*([Aa]lready exists|already own|one control plane)"
        ):
            engine.create(token, good(token))
    else:
        second = engine.create(token, good(token))
        assert (second.resource_id != first.resource_id) is (again == "made under another id")


@of_every_type
def test_what_it_needs_has_to_stand_before_it(engine: Engine, token: str) -> None:
    if not INPUTS[token].get("needs"):
        assert engine.create(token, good(token)).resource_id
        return
    with pytest.raises(ProviderError, match=r"Error (400|404): .*(ot found|not exist|not enabled)"):
        engine.create(token, good(token))


@of_every_type
def test_changes_replace_or_are_made_in_place(engine: Engine, token: str) -> None:
    state = engine.furnish(token)
    for change in INPUTS[token].get("replaces", ()):
        assert engine.diff(token, state, good(token, change)).replaces, change
    for change in INPUTS[token].get("updates", ()):
        news = good(token, change)
        found = engine.diff(token, state, news)
        assert (bool(found.changes), list(found.replaces)) == (True, []), change
        state = engine.update(token, state, news)
        assert not engine.diff(token, state, news).changes, change
        read = engine.read(token, state)
        assert read is not None
        assert plain(read.outputs) == state.outputs, change
        state = engine.update(token, state, good(token))
    assert not engine.diff(token, state, good(token)).changes


@of_every_type
def test_what_is_deleted_is_gone_and_may_be_deleted_again(engine: Engine, token: str) -> None:
    state = engine.furnish(token)
    if "deletionPolicy" in TYPES[token].schema.fields:
        kept = ResourceState(state.resource_id, {**state.inputs, "deletionPolicy": "PREVENT"}, state.outputs)
        with pytest.raises(ProviderError, match="PREVENT"):
            engine.delete(token, kept)
    engine.delete(token, state)
    assert (engine.read(token, state) is not None) is INPUTS[token].get("stays", False)
    if token != "gcp:projects/iAMCustomRole:IAMCustomRole":  # noqa: S105 - a type's token
        engine.delete(token, state)


@of_every_type
def test_an_import_finds_what_a_program_would_say(engine: Engine, token: str) -> None:
    state = engine.furnish(token)
    if "member" in INPUTS[token]["good"] or token in _NOT_IMPORTED:
        return
    found = engine.read(token, ResourceState(state.resource_id, {}, {}))
    assert found is not None
    assert found.resource_id == state.resource_id
    for name, value in state.inputs.items():
        if name not in _OF_THE_PROVIDER and not isinstance(value, (dict, list)):
            default = TYPES[token].schema.fields[name].default
            assert _bare(found.inputs.get(name, default)) == _bare(value), name


def _bare(value: Any) -> Any:
    """A reference by its last part, JSON by its value."""
    if str(value).startswith("{"):
        return json.loads(value)
    return str(value).rpartition("/")[2].lower() if isinstance(value, str) else value
