"""The ``gcp`` provider's operations for the engine, by a type's declaration over Google's REST APIs."""

from __future__ import annotations

import copy
import hashlib
import os
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.gcp_provider.checking import failures
from encamp_sandbox.gcp_provider.client import Patience
from encamp_sandbox.gcp_provider.functions import FUNCTIONS
from encamp_sandbox.gcp_provider.model import Made
from encamp_sandbox.gcp_provider.planning import Plan
from encamp_sandbox.gcp_provider.table import TYPES
from encamp_sandbox.provider import (
    UNKNOWN,
    CheckResult,
    CreateResult,
    DiffResult,
    Failure,
    InvokeResult,
    ProviderError,
    ReadResult,
    Secret,
    Session,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.model import Context, ResourceType
    from encamp_sandbox.gcp_provider.schema import Property
    from encamp_sandbox.provider import Properties, Resource, ResourceState

#: The provider's own note in inputs: which of them it has filled in.
_DEFAULTS = "__defaults"
_RANDOM_DIGITS = 7
_DELETION_POLICIES = ("DELETE", "PREVENT", "ABANDON")


class GcpSession(Session):
    """One engine connection."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    async def check(self, resource: Resource, olds: Properties, news: Properties, *, seed: bytes) -> CheckResult:
        """Validate inputs, and name what has no name."""
        type_ = _type(resource)
        inputs = {key: value for key, value in news.items() if value is not None and key != _DEFAULTS}
        name = type_.schema.autoname
        if name and name not in inputs:
            inputs[name] = _automatic_name(name, resource, olds, seed)
            inputs[_DEFAULTS] = [name]
        found = [*failures(type_.schema.fields, inputs), *self._of_others(type_, inputs)]
        found += [Failure(path, text) for path, text in type_.checks(inputs)]
        policy = inputs.get("deletionPolicy")
        if "deletionPolicy" in type_.schema.fields and policy not in (None, UNKNOWN, *_DELETION_POLICIES):
            reason = f"expected deletion_policy to be one of {list(_DELETION_POLICIES)}, got {policy}"
            found.append(Failure("deletionPolicy", reason))
        return CheckResult(inputs, found)

    def _of_others(self, type_: ResourceType, inputs: Properties) -> Iterator[Failure]:
        """Refuse every project but the sandbox's: nothing that is meant for a real one ever lands here."""
        project = inputs.get("project")
        if "project" in type_.schema.fields and project not in (None, UNKNOWN, self._context.project):
            reason = f"the sandbox serves the project {self._context.project} only, not {project}"
            yield Failure("project", reason)

    async def diff(
        self, resource: Resource, state: ResourceState, news: Properties, *, ignore_changes: Sequence[str]
    ) -> DiffResult:
        """Return the effect of new inputs on a resource as it is."""
        type_ = _type(resource)
        fixed = _DEFAULTS not in news and type_.fixed_name
        return _plan(type_).diff(state.outputs, news, ignore_changes, fixed_name=fixed)

    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        """Create a resource."""
        type_ = _type(resource)
        if preview:
            return CreateResult("", _previewed(type_.schema.fields, inputs, {}))
        context = self._patient(type_, "create", time_limit)
        made = await self._worded(type_.create(_given(inputs), context), resource)
        return CreateResult(made.resource_id, _concealed(type_.schema.fields, made.outputs))

    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        """Read a resource as it is."""
        type_ = _type(resource)
        context = self._context.patient(Patience.within(self.cancelled, None))
        await self._worded(type_.resume(state.resource_id, state.outputs, context), resource)
        made = await self._worded(type_.read(state.resource_id, _given(state.inputs), context), resource)
        if made is None:
            return None
        inputs = _refreshed(type_, state.inputs, made.outputs) if state.inputs else _imported(type_, made.outputs)
        return ReadResult(made.resource_id, inputs, _concealed(type_.schema.fields, made.outputs))

    async def update(
        self,
        resource: Resource,
        state: ResourceState,
        news: Properties,
        *,
        time_limit: float | None,
        preview: bool,
        ignore_changes: Sequence[str],
    ) -> Properties:
        """Change a resource in place."""
        type_ = _type(resource)
        if preview:
            return _concealed(type_.schema.fields, _previewed(type_.schema.fields, news, state.outputs))
        found = _plan(type_).diff(state.outputs, news, ignore_changes, fixed_name=False)
        changed = set(found.changes)
        context = self._patient(type_, "update", time_limit)
        made = Made(state.resource_id, state.outputs)
        now = await self._worded(type_.update(made, _given(news), changed, context), resource)
        return _concealed(type_.schema.fields, now.outputs)

    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        """Delete a resource, unless it is protected."""
        type_ = _type(resource)
        policy = state.inputs.get("deletionPolicy") or "DELETE"
        if policy == "ABANDON":
            return
        if policy == "PREVENT" and "deletionPolicy" in type_.schema.fields:
            text = "the resource has deletion_policy PREVENT and cannot be deleted"
            raise ProviderError(text, where=resource.name)
        if "deletionProtection" in type_.schema.fields and state.inputs.get("deletionProtection") is not False:
            text = "Cannot destroy the resource because deletion_protection is set to true."
            raise ProviderError(text, where=resource.name, hint="set it to false and update before you delete")
        context = self._patient(type_, "delete", time_limit)
        await self._worded(type_.delete(state.resource_id, _given(state.inputs), context), resource)

    async def invoke(self, token: str, args: Properties, *, preview: bool) -> InvokeResult:
        """Call a function."""
        function = FUNCTIONS.get(token)
        if function is None:
            return await super().invoke(token, args, preview=preview)
        try:
            return InvokeResult(await function(args, self._context.patient(Patience(self.cancelled))))
        except GoogleError as error:
            raise ProviderError(str(error), where=token) from error

    def _patient(self, type_: ResourceType, operation: str, limit: float | None) -> Context:
        seconds = limit if limit is not None else type_.schema.timeouts.get(operation)
        return self._context.patient(Patience.within(self.cancelled, seconds))

    async def _worded(self, work: Awaitable[Any], resource: Resource) -> Any:
        """Do one operation, and translate its refusal for the engine."""
        try:
            return await work
        except GoogleError as error:
            raise ProviderError(str(error), where=resource.name) from error


def _type(resource: Resource) -> ResourceType:
    type_ = TYPES.get(resource.token)
    if type_ is None:
        raise ProviderError(
            f"the sandbox does not serve the type {resource.token}",
            where=resource.name,
            hint=f"it serves {', '.join(sorted(TYPES))}",
        )
    return type_


def _plan(type_: ResourceType) -> Plan:
    return Plan(type_.schema.fields, type_.suppress)


def _given(inputs: Properties) -> Properties:
    """Return inputs without what is absent and without the provider's own notes."""
    return {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}


def _automatic_name(key: str, resource: Resource, olds: Properties, seed: bytes) -> str:
    """Return the old name, or the logical name with random digits that stay equal in every preview of one update."""
    if key in (olds.get(_DEFAULTS) or ()) and olds.get(key):
        return str(olds[key])
    digits = hashlib.sha256(seed or os.urandom(16)).hexdigest()[:_RANDOM_DIGITS]
    return f"{resource.name}-{digits}".lower()


def _previewed(fields: Mapping[str, Property], inputs: Properties, outputs: Properties) -> Properties:
    """Return the outputs of a preview: the inputs, values that an update keeps, and unknowns for the rest."""
    known: Properties = {}
    for name, one in fields.items():
        given = inputs.get(name)
        if given is not None:
            nested = one.kind == "block" and isinstance(given, dict) and isinstance(outputs.get(name) or {}, dict)
            known[name] = _previewed(one.fields, given, outputs.get(name) or {}) if nested else given
        elif one.computed:
            known[name] = outputs.get(name, UNKNOWN)
        elif one.default is not None:
            known[name] = one.default
    return known


def _concealed(fields: Mapping[str, Property], outputs: Properties) -> Properties:
    """Return outputs with what the schema marks as a secret made one."""
    shown = dict(outputs)
    for name, one in fields.items():
        value = shown.get(name)
        if value is None or value is UNKNOWN:
            continue
        if one.secret:
            shown[name] = Secret(value)
        elif one.kind == "block" and isinstance(value, dict):
            shown[name] = _concealed(one.fields, value)
        elif one.kind in ("blocks", "blockset") and isinstance(value, list):
            shown[name] = [_concealed(one.fields, item) if isinstance(item, dict) else item for item in value]
    return shown


def _refreshed(type_: ResourceType, inputs: Properties, outputs: Properties) -> Properties:
    """Return the inputs that would make the resource as it is: where it differs from what was asked for, as it is."""
    now = copy.deepcopy(inputs)
    for one in _plan(type_).differences(outputs, _given(inputs)):
        list_at = next((index for index, key in enumerate(one.path) if isinstance(key, int)), len(one.path))
        _set(now, one.path[:list_at], _at(outputs, one.path[:list_at]))
    return now


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _set(inputs: Properties, path: Path, value: Any) -> None:
    """Set what a program gave to what is; what it never gave stays ungiven."""
    *above, last = path
    for key in above:
        inner = inputs.get(str(key))
        if not isinstance(inner, dict):
            return
        inputs = inner
    before = inputs.get(str(last))
    if before is not None:
        inputs[str(last)] = copy.deepcopy(value) if value is not None else type(before)()


def _imported(type_: ResourceType, outputs: Properties) -> Properties:
    """Return the inputs of a resource that was found: what can be given and is not a default."""
    return {
        name: value
        for name, value in outputs.items()
        if (one := type_.schema.fields.get(name)) is not None
        and one.is_input
        and value not in (one.default, "", [], {})
    }
