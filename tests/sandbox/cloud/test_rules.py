"""Every rule of the provider's table, and what Google refuses whatever the type, each by an example of it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.sandbox.cloud import refusals
from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT
from encamp.sandbox.cloud.gcp.table import TYPES
from encamp.sandbox.provider import ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import ResourceType, Rule
    from encamp.sandbox.cloud.gcp.session import GcpSession
    from encamp.sandbox.provider import Properties

pytestmark = pytest.mark.slow

EXAMPLES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("examples.yaml").read_text())
of_every_type = pytest.mark.parametrize("type_", TYPES.values(), ids=list(TYPES))
_SHOWN = [type_ for token, type_ in TYPES.items() if token in EXAMPLES]
by_example = pytest.mark.parametrize("type_", _SHOWN, ids=[type_.token for type_ in _SHOWN])
_UNKNOWN_ROLE = "The role named projects/sandbox-encamp/roles/absent was not found"
_MEMBERS = (
    (
        refusals.UNKNOWN_ACCOUNT,
        {"member": "serviceAccount:absent@sandbox-encamp.iam.gserviceaccount.com"},
        "Service account absent@sandbox-encamp.iam.gserviceaccount.com does not exist",
    ),
    (
        refusals.UNKNOWN_POOL,
        {"member": "serviceAccount:other.svc.id.goog[jobs/trainer]"},
        "Identity Pool does not exist (other.svc.id.goog)",
    ),
    (refusals.MALFORMED_MEMBER, {"member": "trainer"}, "Invalid value for member: trainer"),
    (refusals.ODD_ROLE, {"role": "roles/a b"}, "Role roles/a b is not supported"),
    (refusals.UNKNOWN_ROLE, {"role": "projects/sandbox-encamp/roles/absent"}, _UNKNOWN_ROLE),
)


def good(token: str, change: Properties | None = None) -> Properties:
    """The good inputs of a type, with a change; None takes an input away."""
    inputs = {**json.loads(json.dumps(EXAMPLES[token]["good"])), **(change or {})}
    return {key: value for key, value in inputs.items() if value is not None}


def resource(token: str) -> Resource:
    return Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")


def create(session: GcpSession, token: str, inputs: Properties) -> ResourceState:
    """Make one as the engine does; what the provider refuses before the API is raised too."""

    async def work() -> ResourceState:
        checked = await session.check(resource(token), {}, inputs, seed=b"seed")
        if checked.failures:
            raise ProviderError(checked.failures[0].reason, where=checked.failures[0].property)
        made = await session.create(resource(token), checked.inputs, time_limit=None, preview=False)
        return ResourceState(made.resource_id, checked.inputs, made.outputs)

    return asyncio.run(work())


def furnish(session: GcpSession, token: str, made: dict[str, ResourceState] | None = None) -> dict[str, ResourceState]:
    """Make what stands before a type, and what stands before that."""
    made = {} if made is None else made
    for need in EXAMPLES[token].get("needs", ()):
        if need not in made:
            furnish(session, need, made)
            made[need] = create(session, need, good(need))
    return made


def shared(rule: Rule) -> list[Any] | None:
    """What breaks a rule that many types share, and what is said then."""
    if rule is PROJECT:
        return [{"project": "real-one"}, "the sandbox serves the project sandbox-encamp only"]
    if rule is DELETION_POLICY:
        return [{"deletionPolicy": "KEEP"}, "to be one of"]
    if rule.name == "labels" and rule.source.endswith("creating-managing-labels#requirements"):
        return [{rule.reads[0]: {"Big": "x"}}, "Label key 'Big' violates"]
    return None


@of_every_type
def test_every_rule_of_a_type_has_an_example_that_breaks_it(type_: ResourceType) -> None:
    names = [rule.name for rule in type_.rules]
    assert len(names) == len(set(names)), "each rule of a type has a name of its own"
    assert type_.token in EXAMPLES, "give the type a good example in examples.yaml, and one that breaks each rule"
    wanted = {rule.name for rule in type_.rules if shared(rule) is None}
    assert wanted == set(EXAMPLES[type_.token].get("broken", {}))


@by_example
def test_what_breaks_a_rule_is_refused_when_the_rule_says(session: GcpSession, type_: ResourceType) -> None:
    furnish(session, type_.token)
    for rule in type_.rules:
        change, message, *before = shared(rule) or EXAMPLES[type_.token]["broken"][rule.name]
        for token, more in [pair for one in before for pair in one.items()]:
            create(session, token, good(token, more))
        broken = good(type_.token, change)
        told = asyncio.run(session.check(resource(type_.token), {}, broken, seed=b"s")).failures
        assert bool(told) is not rule.api, f"{rule.name}: {told}"
        answer = rf"Error {rule.code}: .*{re.escape(message)}" if rule.api else re.escape(message)
        with pytest.raises(ProviderError, match=answer):
            create(session, type_.token, broken)


@by_example
def test_a_good_example_is_made_and_made_once(session: GcpSession, type_: ResourceType) -> None:
    furnish(session, type_.token)
    inputs = good(type_.token)
    first = create(session, type_.token, inputs)
    again = EXAMPLES[type_.token].get("again", "refused")
    if again == "refused":
        # A cluster meets the limit of one before its name is looked at.
        with pytest.raises(
            ProviderError, match=rf"Error {refusals.DUPLICATE.code}: (Already exists|.* you already own)"
        ):
            create(session, type_.token, inputs)
    else:
        second = create(session, type_.token, inputs)
        assert (second.resource_id != first.resource_id) is (again == "made under another id")


@by_example
def test_what_a_type_needs_has_to_stand_before_it(session: GcpSession, type_: ResourceType) -> None:
    for name in type_.required:
        told = asyncio.run(session.check(resource(type_.token), {}, good(type_.token, {name: None}), seed=b"s"))
        assert f'missing required property "{name}"' in [failure.reason for failure in told.failures]
    if EXAMPLES[type_.token].get("needs"):
        with pytest.raises(ProviderError, match=rf"Error ({refusals.MISSING.code}|400): .*(ot found|not exist)"):
            create(session, type_.token, good(type_.token))


@by_example
def test_what_cannot_be_changed_replaces(session: GcpSession, type_: ResourceType) -> None:
    async def replaced(path: str) -> bool:
        olds, news = good(type_.token), good(type_.token)
        _put(olds, path.split("."), "as it was")
        _put(news, path.split("."), "changed")
        found = await session.diff(resource(type_.token), ResourceState("id", olds, {}), news, ignore_changes=[])
        assert found.changes, path
        return bool(found.replaces)

    async def all_of_them() -> None:
        for path in type_.immutable:
            assert await replaced(path), path
        for path in type_.mutable:
            assert not await replaced(path), path

    asyncio.run(all_of_them())


def _put(inputs: Properties, path: list[str], value: str) -> None:
    *above, last = path
    for part in above:
        inputs = inputs.setdefault(part, {})
    inputs[last] = value


@by_example
def test_what_is_to_stay_is_not_deleted(session: GcpSession, type_: ResourceType) -> None:
    made = furnish(session, type_.token)
    state = create(session, type_.token, good(type_.token))
    kept = ResourceState(state.resource_id, {**state.inputs, "deletionPolicy": "PREVENT"}, state.outputs)
    if DELETION_POLICY in type_.rules:
        with pytest.raises(ProviderError, match="PREVENT"):
            _delete(session, type_.token, kept)
    if "deletionProtection" in state.outputs:
        open_ = {key: value for key, value in state.inputs.items() if key != "deletionProtection"}
        with pytest.raises(ProviderError, match="deletion_protection"):
            _delete(session, type_.token, ResourceState(state.resource_id, open_, state.outputs))
    for token in EXAMPLES[type_.token].get("held", ()):
        with pytest.raises(ProviderError, match="already being used by"):
            _delete(session, token, made[token])
    _delete(session, type_.token, state)
    found = asyncio.run(session.read(resource(type_.token), state))
    assert (found is not None) is EXAMPLES[type_.token].get("stays", False)
    _delete(session, type_.token, state)


def _delete(session: GcpSession, token: str, state: ResourceState) -> None:
    asyncio.run(session.delete(resource(token), state, time_limit=None))


@pytest.mark.parametrize("token", [type_.token for type_ in _SHOWN if "member" in type_.required])
def test_who_and_what_nobody_knows_is_not_bound(session: GcpSession, token: str) -> None:
    furnish(session, token)
    for refusal, change, message in _MEMBERS:
        with pytest.raises(ProviderError, match=rf"Error {refusal.code}: {re.escape(message)}"):
            create(session, token, good(token, change))


def test_every_refusal_names_its_source() -> None:
    names = [one.name for one in refusals.REFUSALS]
    assert len(names) == len(set(names))
    for one in refusals.REFUSALS:
        assert re.match(r"(cloud\.google\.com|github\.com)/", one.source), one.name
