"""The interface for provider authors: one ``Provider``, and one ``Session`` per configured engine connection.

All values are plain Python data (``values.py``). The server takes care of the rest:

- **Secrets** are opened before a method sees them. Where an input was secret, the same path of what the method
  returns is made secret again; a method may wrap more in ``Secret``.
- **Unknowns** (``UNKNOWN``) occur in the inputs of ``check``, ``diff``, and of ``create`` and ``update`` with
  ``preview=True``. Outputs of a preview may hold them too.
- **Errors**: raise ``ProviderError`` or any ``EncampError``; the engine prints the text beside the resource. Raise
  ``InitError`` when the resource exists but did not get ready: the engine then keeps it in its state. Any other
  exception is a bug: its traceback goes to the provider's log and its text to the engine.
- **Cancellation**: an operation is never cut off in the middle, since what it made would be lost. When the engine
  cancels or goes away, ``session.cancelled`` is set: long waits look at it and raise or return early.
- **Concurrency**: methods run side by side in one event loop and must not block it (``asyncio.to_thread`` for what
  does). Every connection of an engine gets a session of its own, so nothing of one run reaches another.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from encamp.errors import EncampError, SandboxError
from encamp_sandbox.provider.compare import DiffResult, diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp_sandbox.provider.values import Properties, Value


class ProviderError(SandboxError):
    """A resource operation cannot be done; the text is what the user reads beside the resource."""


class InitError(EncampError):
    """The resource exists, but it did not become ready.

    Args:
        resource_id: id of the resource that exists now.
        outputs: what is known of it, as ``create`` would return it.
        reasons: why it is not ready, one sentence each.
        inputs: the inputs it has now; only ``read`` gives them.
    """

    def __init__(
        self, resource_id: str, outputs: Properties, reasons: Sequence[str], *, inputs: Properties | None = None
    ) -> None:
        super().__init__("; ".join(reasons))
        self.resource_id = resource_id
        self.outputs = outputs
        self.reasons = tuple(reasons)
        self.inputs = inputs


@dataclass(frozen=True)
class Resource:
    """The resource of an operation: type token such as ``gcp:storage/bucket:Bucket``, URN, logical name."""

    token: str
    urn: str
    name: str


@dataclass(frozen=True)
class Configuration:
    """The engine's configuration of a provider instance.

    Attributes:
        args: the provider's inputs. SDKs send what is no string as JSON text: use ``flag`` and ``value``.
        urn: URN of the provider resource, empty if the engine does not say.
        engine: address of the engine's own gRPC service, empty if the engine does not say.
    """

    args: Properties
    urn: str = ""
    engine: str = ""

    def text(self, name: str) -> str | None:
        """Return a string argument, None if it is absent or empty."""
        given = self.args.get(name)
        return str(given) if given not in (None, "") else None

    def flag(self, name: str) -> bool:
        """Return a boolean argument, sent as a bool or as ``"true"``."""
        return self.args.get(name) in (True, "true", "True")

    def value(self, name: str) -> Value:
        """Return an argument that is no string: parsed where it was sent as JSON text.

        Raises:
            ProviderError: the text is no JSON.
        """
        given = self.args.get(name)
        if not isinstance(given, str):
            return given
        try:
            return json.loads(given)
        except json.JSONDecodeError as error:
            raise ProviderError(f"the provider's {name} is no JSON: {error}", where=name) from error


@dataclass(frozen=True)
class Failure:
    """One input that is wrong; ``property`` is its path such as ``nodeConfig.machineType``, or empty for all."""

    property: str
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """The inputs with defaults and automatic names filled in, and every failure found."""

    inputs: Properties
    failures: Sequence[Failure] = ()


@dataclass(frozen=True)
class CreateResult:
    """A created resource; in a preview the id is ignored and may be empty."""

    resource_id: str
    outputs: Properties


@dataclass(frozen=True)
class ReadResult:
    """A resource as it is now; ``inputs`` are those that would make it so (an import takes them as its own)."""

    resource_id: str
    inputs: Properties
    outputs: Properties


@dataclass(frozen=True)
class InvokeResult:
    """The result of a function, or the failures of its arguments."""

    outputs: Properties = field(default_factory=dict)
    failures: Sequence[Failure] = ()


@dataclass(frozen=True)
class ResourceState:
    """A resource in the engine's state: its id, its last inputs and its last outputs."""

    resource_id: str
    inputs: Properties
    outputs: Properties


class Session(ABC):
    """The operations of one configured engine connection. ``time_limit`` is in seconds, None if the user gave none."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    @abstractmethod
    async def check(self, resource: Resource, olds: Properties, news: Properties, *, seed: bytes) -> CheckResult:
        """Validate inputs and fill in defaults.

        ``seed`` is for a new automatic name; it changes from run to run, so a resource that has one in ``olds``
        (its inputs of the last run, empty for a new resource or a replacement) keeps that.
        """

    async def diff(
        self, resource: Resource, state: ResourceState, news: Properties, *, ignore_changes: Sequence[str]
    ) -> DiffResult:
        """Return the effect of new inputs on a resource; by default every changed input is an update."""
        del resource, ignore_changes
        return diff(state.inputs, news)

    @abstractmethod
    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        """Create a resource; a preview changes nothing and returns the outputs that are known."""

    @abstractmethod
    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        """Read a resource as it is, None if it is gone. An import comes with empty inputs and outputs."""

    @abstractmethod
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
        """Change a resource in place and return its outputs; a preview changes nothing."""

    @abstractmethod
    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        """Delete a resource and wait until it is gone; one that is gone already is fine."""

    async def invoke(self, token: str, args: Properties, *, preview: bool) -> InvokeResult:
        """Call a function such as ``gcp:storage/getBucketObjects:getBucketObjects``."""
        del args, preview
        raise ProviderError(f"the sandbox does not serve the function {token}")

    async def close(self) -> None:
        """Free what the session holds; its engine is gone."""
        self.cancelled.set()


class Provider(ABC):
    """A package's provider: ``name`` as in its type tokens, ``version`` of the SDK it follows."""

    name: ClassVar[str]
    version: ClassVar[str]

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate a provider instance's own inputs; by default all are right."""
        del urn, olds
        return CheckResult(news)

    async def diff_config(self, urn: str, olds: Properties, news: Properties) -> DiffResult:
        """Return the effect of new provider inputs; by default no resource has to be replaced for them."""
        del urn
        return diff(olds, news)

    @abstractmethod
    async def configure(self, configuration: Configuration) -> Session:
        """Make the session of a connection. It must be quick and need nothing that may not exist yet."""
