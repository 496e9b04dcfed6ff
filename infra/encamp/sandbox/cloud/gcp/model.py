"""What a declaration of a resource type says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.provider import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.cloud.storage_client import StorageClient
    from encamp.sandbox.layout import Layout
    from encamp.sandbox.provider import Properties

DEFAULTS_KEY = "__defaults"
_PROVIDER_SIDE = 400


@dataclass(frozen=True)
class Context:
    """What a rule or a backend may look at: the cloud, the sandbox, and the provider's own configuration."""

    cloud: Cloud
    storage: StorageClient
    layout: Layout
    region: str | None = None
    zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> str:
        """The sandbox's project."""
        return self.cloud.project

    def region_of(self, inputs: Properties) -> str:
        """The region of a regional resource."""
        region = inputs.get("region") or self.region
        if not region:
            raise GoogleError(400, "Cannot determine region: set in this resource, or set provider-level 'region'.")
        return short(region)

    def location_of(self, inputs: Properties) -> str:
        """The region or zone of a resource that may be in either."""
        location = inputs.get("location") or self.zone or self.region
        if not location:
            raise GoogleError(400, "Cannot determine location: set in this resource, or set provider-level 'zone'.")
        return short(location)


Problem = str | None


@dataclass(frozen=True)
class Rule:
    """One thing that Google refuses.

    Attributes:
        name: what it is about, in a word or two.
        source: the public page that says so.
        reads: top-level properties that it looks at; while one of them is unknown the rule is not asked.
        test: the message of the refusal, or None.
        api: True if only the API refuses it (at create or update), False if the provider does before (at preview).
        code: HTTP status of the API's refusal.
        reason: Google's reason word for it, if not the usual one.
    """

    name: str
    source: str
    reads: tuple[str, ...]
    test: Callable[[Properties, Context], Problem]
    api: bool = False
    code: int = _PROVIDER_SIDE
    reason: str | None = None


@dataclass(frozen=True)
class Made:
    """A resource as a backend made or found it; ``inputs`` only where a read found other ones."""

    resource_id: str
    outputs: dict[str, Any]
    inputs: dict[str, Any] | None = None


class Backend(Protocol):
    """Where resources of a type are kept. Every method raises GoogleError for what the API refuses."""

    def name(self, inputs: Properties, context: Context) -> str:
        """Give the full name of what the inputs describe."""
        ...

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it."""
        ...

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it; inputs are empty in an import."""
        ...

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Change it in place."""
        ...

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it; one that is gone already is fine."""
        ...


@dataclass(frozen=True)
class ResourceType:
    """A type token and what Google says of it.

    Attributes:
        token: Pulumi's type token.
        wheel: module and class in the pulumi_gcp wheel.
        required: inputs without which nothing is made.
        immutable: dotted input paths whose change replaces the resource.
        mutable: exceptions below an immutable path.
        computed: dotted paths of outputs that nobody sets.
        defaults: outputs of inputs that were left out.
        autoname: the input that gets a name of its own when left out.
        labels: the input with labels, if the type has any.
    """

    token: str
    wheel: tuple[str, str]
    backend: Backend
    required: tuple[str, ...]
    immutable: tuple[str, ...]
    computed: tuple[str, ...]
    rules: Sequence[Rule] = ()
    mutable: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    autoname: str | None = None
    labels: str | None = None

    def replaces(self, path: tuple[str | int, ...]) -> bool:
        """Whether a change of this path cannot be made in place."""
        dotted = ".".join(str(part) for part in path if not isinstance(part, int))
        return _covered(dotted, self.immutable) and not _covered(dotted, self.mutable)


def _covered(path: str, prefixes: Sequence[str]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def short(value: object) -> str:
    """The last part of a name, a full name or a self link."""
    return str(value).rstrip("/").rpartition("/")[2]


def has_unknown(value: object) -> bool:
    """Whether a value is unknown, or holds one that is."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN


def pattern_rule(name: str, key: str, pattern: str, source: str, what: str) -> Rule:
    """A rule: a property has to match a pattern from end to end."""
    compiled = re.compile(pattern)

    def test(inputs: Properties, _: Context) -> Problem:
        value = inputs.get(key)
        if value is None or (isinstance(value, str) and compiled.fullmatch(value)):
            return None
        return f'"{key}" ("{value}") {what}'

    return Rule(name, source, (key,), test)


def choice_rule(name: str, key: str, choices: Sequence[str], source: str) -> Rule:
    """A rule: a property is one of a few words."""

    def test(inputs: Properties, _: Context) -> Problem:
        value = inputs.get(key)
        return (
            None if value is None or value in choices else f"expected {key} to be one of {list(choices)}, got {value}"
        )

    return Rule(name, source, (key,), test)
