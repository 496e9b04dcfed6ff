"""What the engine asks of the ``gcp`` provider, done by a type's declaration."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING, Any

from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.faults import Asked
from encamp.sandbox.cloud.gcp.common import given
from encamp.sandbox.cloud.gcp.functions import FUNCTIONS
from encamp.sandbox.cloud.gcp.model import DEFAULTS_KEY, has_unknown
from encamp.sandbox.cloud.gcp.table import TYPES
from encamp.sandbox.cloud.refusals import PREVENTED, PROTECTED
from encamp.sandbox.cloud.striking import perform
from encamp.sandbox.provider import (
    UNKNOWN,
    CheckResult,
    CreateResult,
    DiffResult,
    Failure,
    InvokeResult,
    ProviderError,
    ReadResult,
    Session,
    diff,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from encamp.sandbox.cloud.gcp.model import Context, Made, ResourceType
    from encamp.sandbox.provider import Properties, Resource, ResourceState

#: Seconds that every create, update and delete takes, so that the sandbox can feel like a cloud.
LATENCY_VARIABLE = "ENCAMP_SANDBOX_LATENCY_SECONDS"
_RANDOM_DIGITS = 7


class GcpSession(Session):
    """One engine connection."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._latency = float(os.environ.get(LATENCY_VARIABLE) or 0)

    async def check(self, resource: Resource, olds: Properties, news: Properties, *, seed: bytes) -> CheckResult:
        """Validate inputs, and name what has no name."""
        type_ = _type(resource)
        inputs = {key: value for key, value in news.items() if value is not None and key != DEFAULTS_KEY}
        if type_.autoname and type_.autoname not in inputs:
            inputs[type_.autoname] = _automatic_name(type_.autoname, resource, olds, seed)
            inputs[DEFAULTS_KEY] = [type_.autoname]
        failures = [Failure(key, f'missing required property "{key}"') for key in type_.required if key not in inputs]
        failures += [] if failures else self._broken(type_, inputs)
        return CheckResult(inputs, failures)

    def _broken(self, type_: ResourceType, inputs: Properties) -> list[Failure]:
        failures = []
        for rule in type_.rules:
            if rule.api or any(has_unknown(inputs.get(key)) for key in rule.reads):
                continue
            if problem := rule.test(inputs, self._context):
                failures.append(Failure(rule.reads[0], problem))
        return failures

    async def diff(
        self, resource: Resource, state: ResourceState, news: Properties, *, ignore_changes: Sequence[str]
    ) -> DiffResult:
        """Tell what new inputs mean."""
        type_ = _type(resource)
        fixed_name = DEFAULTS_KEY not in news or not type_.autoname
        return diff(
            given(state.inputs),
            given(news),
            replace=type_.replaces,
            ignore=ignore_changes,
            delete_before_replace=fixed_name,
        )

    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        """Create a resource."""
        type_ = _type(resource)
        if preview:
            return CreateResult("", _previewed(type_, inputs, {}))

        async def work() -> Made:
            self._refuse(type_, inputs)
            return await type_.backend.create(inputs, self._context)

        made = await self._operate(type_, "create", inputs, work, time_limit)
        return CreateResult(made.resource_id, made.outputs)

    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        """Read a resource as it is."""
        type_ = _type(resource)
        made = await self._operate(
            type_,
            "read",
            state.inputs,
            lambda: type_.backend.read(state.resource_id, state.inputs, self._context),
            None,
            name=state.resource_id,
        )
        if made is None:
            return None
        notes = {key: value for key, value in state.inputs.items() if key == DEFAULTS_KEY}
        return ReadResult(
            made.resource_id if not state.inputs else state.resource_id, {**(made.inputs or {}), **notes}, made.outputs
        )

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
        del ignore_changes
        type_ = _type(resource)
        if preview:
            return _previewed(type_, news, state.outputs)

        async def work() -> Made:
            self._refuse(type_, news)
            return await type_.backend.update(state.resource_id, state.inputs, news, self._context)

        made = await self._operate(type_, "update", news, work, time_limit)
        return made.outputs

    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        """Delete a resource, unless it is protected."""
        type_ = _type(resource)
        policy = state.inputs.get("deletionPolicy") or "DELETE"
        if policy == "ABANDON":
            return
        if policy == "PREVENT":
            raise ProviderError(PREVENTED.text, where=resource.name)
        if "deletionProtection" in state.outputs and state.inputs.get("deletionProtection") is not False:
            hint = "set it to false and update before you delete"
            raise ProviderError(PROTECTED.text, where=resource.name, hint=hint)

        async def work() -> None:
            await type_.backend.delete(state.resource_id, state.inputs, self._context)

        await self._operate(type_, "delete", state.inputs, work, time_limit)

    async def invoke(self, token: str, args: Properties, *, preview: bool) -> InvokeResult:
        """Call a function."""
        function = FUNCTIONS.get(token)
        if function is None:
            return await super().invoke(token, args, preview=preview)
        try:
            return InvokeResult(await function(args, self._context))
        except GoogleError as error:
            raise ProviderError(str(error), where=token) from error

    def _refuse(self, type_: ResourceType, inputs: Properties) -> None:
        """Refuse what only the API refuses."""
        for rule in type_.rules:
            problem = rule.test(inputs, self._context)
            if problem:
                raise GoogleError(rule.code, problem, reason=rule.reason)

    async def _operate(
        self,
        type_: ResourceType,
        operation: str,
        inputs: Properties,
        work: Callable[[], Awaitable[Any]],
        time_limit: float | None,
        *,
        name: str = "",
    ) -> Any:
        """Do one operation, with the latency and the faults that are set, and word its refusal for the engine."""
        try:
            name = name or type_.backend.name(inputs, self._context)
            if operation != "read":
                await asyncio.sleep(self._latency)
            asked = Asked(type_.token, operation, name)
            return await perform(self._context.cloud.faults, asked, work, hang=lambda: self._hang(time_limit))
        except GoogleError as error:
            raise ProviderError(str(error), where=name or type_.token) from error

    async def _hang(self, time_limit: float | None) -> None:
        """Answer nothing until the engine gives up."""
        try:
            await asyncio.wait_for(self.cancelled.wait(), time_limit)
        except TimeoutError:
            return


def _type(resource: Resource) -> ResourceType:
    type_ = TYPES.get(resource.token)
    if type_ is None:
        raise ProviderError(
            f"the sandbox does not serve the type {resource.token}",
            where=resource.name,
            hint=f"it serves {', '.join(sorted(TYPES))}",
        )
    return type_


def _automatic_name(key: str, resource: Resource, olds: Properties, seed: bytes) -> str:
    """The name it had, or the logical name with random digits that are the same for every preview of one update."""
    if key in (olds.get(DEFAULTS_KEY) or ()) and olds.get(key):
        return str(olds[key])
    digits = hashlib.sha256(seed or os.urandom(16)).hexdigest()[:_RANDOM_DIGITS]
    return f"{resource.name}-{digits}".lower()


def _previewed(type_: ResourceType, inputs: Properties, outputs: Properties) -> Properties:
    """What a preview knows: the inputs, what an update keeps, and that the rest is not known yet."""
    known = given(inputs)
    for path in type_.computed:
        known = _completed(known, outputs, path.split("."))
    return known


def _completed(known: Properties, outputs: Properties, path: list[str]) -> Properties:
    """Add a computed property: the value from an update's outputs, unknown at a create. Adds no block around it."""
    name, *below = path
    if not below:
        return {name: outputs.get(name, UNKNOWN), **known}
    block, before = known.get(name), outputs.get(name)
    if not isinstance(block, dict):
        return known
    return {**known, name: _completed(block, before if isinstance(before, dict) else {}, below)}
