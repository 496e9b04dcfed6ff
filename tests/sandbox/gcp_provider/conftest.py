"""The provider over a cloud in this process, and what tests ask of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.sandbox.cloud.conftest import cloud, desk, layout, processes, session, storage

from encamp_sandbox.gcp_provider import client
from encamp_sandbox.provider import ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from encamp_sandbox.gcp_provider.session import GcpSession
    from encamp_sandbox.provider import DiffResult, Properties, ReadResult

__all__ = ["cloud", "desk", "layout", "processes", "session", "storage"]

INPUTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("inputs.yaml").read_text())


@dataclass
class Engine:
    """Asks a session as the engine does.

    Attributes:
        made: what ``furnish`` has made, by token.
    """

    session: GcpSession
    runner: asyncio.Runner
    made: dict[str, ResourceState] = field(default_factory=dict)

    def resource(self, token: str) -> Resource:
        return Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")

    def failures(self, token: str, inputs: Properties) -> list[str]:
        """What the provider refuses before it asks the API."""
        checked = self.runner.run(self.session.check(self.resource(token), {}, inputs, seed=b"seed"))
        return [failure.reason for failure in checked.failures]

    def create(self, token: str, inputs: Properties) -> ResourceState:
        """Make a resource; what is refused at the preview is raised, too."""

        async def work() -> ResourceState:
            checked = await self.session.check(self.resource(token), {}, inputs, seed=b"seed")
            if checked.failures:
                raise ProviderError(checked.failures[0].reason, where=checked.failures[0].property)
            made = await self.session.create(self.resource(token), checked.inputs, time_limit=None, preview=False)
            return ResourceState(made.resource_id, checked.inputs, plain(made.outputs))

        return self.runner.run(work())

    def furnish(self, token: str, change: Properties | None = None) -> ResourceState:
        """Make the example of a type, with a change, and all that it needs."""
        for need in INPUTS[token].get("needs", ()):
            if need not in self.made:
                self.furnish(need)
        self.made[token] = self.create(token, good(token, change))
        return self.made[token]

    def diff(self, token: str, state: ResourceState, news: Properties, ignore: Sequence[str] = ()) -> DiffResult:
        """What new inputs would change."""
        work = self.session.diff(self.resource(token), state, news, ignore_changes=ignore)
        return self.runner.run(work)

    def update(self, token: str, state: ResourceState, news: Properties) -> ResourceState:
        """Change a resource in place."""
        work = self.session.update(self.resource(token), state, news, time_limit=None, preview=False, ignore_changes=[])
        return ResourceState(state.resource_id, news, plain(self.runner.run(work)))

    def read(self, token: str, state: ResourceState) -> ReadResult | None:
        """Read a resource again."""
        return self.runner.run(self.session.read(self.resource(token), state))

    def delete(self, token: str, state: ResourceState) -> None:
        """Delete a resource."""
        self.runner.run(self.session.delete(self.resource(token), state, time_limit=None))


def good(token: str, change: Properties | None = None) -> Properties:
    """The inputs of a type's example, with a change; None takes an input away."""
    inputs = {**json.loads(json.dumps(INPUTS[token]["good"])), **(change or {})}
    return {key: value for key, value in inputs.items() if value is not None}


def plain(value: Any) -> Any:
    """Outputs without the wrappers of secrets, as the engine hands them back."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return plain(value.value) if type(value).__name__ == "Secret" else value


@pytest.fixture(autouse=True)
def few_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry refusals that may pass for a moment only, not for the minute and a half of the official provider."""
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "_RETRY_SECONDS", 0.2)


@pytest.fixture
def engine(session: GcpSession) -> Iterator[Engine]:
    with asyncio.Runner() as runner:
        yield Engine(session, runner)
