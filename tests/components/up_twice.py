"""Runs programs twice over the sandbox's Google Cloud, in this process, and says what the second run would change.

The first run is an ``up``: each resource is checked and made by the sandbox's own provider, so what its rules refuse is
refused here too. A refresh then reads each resource and must find it as it was made. Then nodes come, Google adds
labels, a day passes. The second run previews each resource twice: as it was made, and after another refresh.
Stacks are named as in ``declare_stack.py``; see ``programs.py``.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx
import pulumi
from pulumi.runtime import stack as runtime_stack
from pulumi.runtime.rpc import wrap_rpc_secret
from pulumi.runtime.sync_await import _sync_await

from encamp.property_paths import parse_path, path_text
from encamp_sandbox.access import write_access
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.gcp_provider.client import Rest
from encamp_sandbox.gcp_provider.model import Context
from encamp_sandbox.gcp_provider.session import GcpSession
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.provider import Asset, ProviderError, Resource, ResourceState, Secret
from encamp_sandbox.provider.compare import differences
from encamp_sandbox.provider.values import plain as opened
from encamp_sandbox.storage.api import StorageServer

declared: Any = importlib.import_module("declare_stack")
DAY = 86_400
NODES = 3
#: Buckets of users' own that job cases name.
GIVEN_BUCKETS = (
    "packages", "team-results", "census-data", "census-output", "census-packages", "my-output", "output",
)  # fmt: skip


#: Outputs that other resources change: the etag of a member is its policy's, and a cluster shows the node config of its
#: first pool.
OF_OTHERS = ("etag", "nodeConfig", "nodePools")


class Clouds:
    """A cloud in this process, asked from the engine's threads."""

    def __init__(self, root: Path, project: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.session, self.cloud = self.ask(self._open(root, project))

    def ask(self, question: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()

    async def _open(self, root: Path, project: str) -> tuple[GcpSession, Cloud]:
        layout = Layout.create(root / "sb")
        issue_certificates(layout)
        write_access(layout, {}, path="")
        cloud = Cloud.open(root / "cloud.sqlite3", project, layout)
        server = StorageServer(root / "storage", layout.token)
        front, _ = make_front(cloud, layout, httpx.ASGITransport(app=server))
        context = Context(rest=Rest.inside(front, layout.token), project=project, region="us-central1")
        for name in GIVEN_BUCKETS:
            body = {"name": name, "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
            await context.rest.call("POST", "/storage/v1/b", context.patience, body=body)
        return GcpSession(context), cloud

    async def refresh(self, key: str, state: ResourceState) -> list[str]:
        """What a refresh finds otherwise than it was made."""
        token, _, name = key.partition(" ")
        found = await self.session.read(Resource(token, f"urn:pulumi:s::encamp::{token}::{name}", name), state)
        if found is None:
            return ["gone"]
        changed = [*differences(state.inputs, found.inputs), *differences(opened(state.outputs), opened(found.outputs))]
        return [f"refresh: {path_text(path)}" for path, _ in changed if path[0] not in OF_OTHERS]

    async def disturb(self) -> None:
        """Nodes come, and Google writes labels of its own."""
        for pool in self.cloud.store.all_of("nodePool"):
            self.cloud.store.merge(pool.name, {"currentNodeCount": NODES})
        for kind, key in (("cluster", "resourceLabels"), ("repository", "labels")):
            for found in self.cloud.store.all_of(kind):
                self.cloud.store.merge(found.name, {key: {**found.labels, "goog-managed": "true"}})


class Up(pulumi.runtime.Mocks):
    """Makes what a program registers."""

    def __init__(self, clouds: Clouds, states: dict[str, ResourceState]) -> None:
        self.clouds, self.states = clouds, states
        self.said: dict[str, list[str]] = {}
        #: By resource, the paths whose changes its options ignore.
        self.ignored: dict[str, list[str]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        resource, inputs = Resource(args.typ, f"urn:pulumi:s::encamp::{args.typ}::{args.name}", args.name), plain(args)
        key = f"{args.typ} {args.name}"
        try:
            state = self.clouds.ask(self.settled(key, resource, inputs))
        except ProviderError as error:
            self.said[key] = [f"refused: {error}"]
            state = ResourceState(f"{args.name}-id", inputs, {**inputs, **declared.COMPUTED.get(args.typ, {})})
        return state.resource_id, shown(state.outputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        return self.clouds.ask(self.clouds.session.invoke(args.token, dict(args.args), preview=False)).outputs, []

    async def settled(self, key: str, resource: Resource, inputs: dict[str, Any]) -> ResourceState:
        """The resource, made."""
        if not resource.token.startswith("gcp:"):
            state = ResourceState(f"{resource.name}-id", inputs, inputs)
        else:
            checked = await self.clouds.session.check(resource, {}, inputs, seed=b"0" * 32)
            if checked.failures:
                raise ProviderError("; ".join(f"{one.property}: {one.reason}" for one in checked.failures))
            made = await self.clouds.session.create(resource, checked.inputs, time_limit=None, preview=False)
            state = ResourceState(made.resource_id, checked.inputs, made.outputs)
        self.states[key] = state
        return state


class Again(Up):
    """Says of what a program registers what would be changed in what was made."""

    async def settled(self, key: str, resource: Resource, inputs: dict[str, Any]) -> ResourceState:
        """The resource, as it is."""
        state = self.states.pop(key, None)
        if state is None:
            self.said[key] = ["made"]
            return ResourceState("", inputs, {**inputs, **declared.COMPUTED.get(resource.token, {})})
        if not resource.token.startswith("gcp:"):
            kept = self.kept(key, inputs, state)
            self.said[key] = [path_text(path) for path, _ in differences(state.inputs, kept)]
            return state
        read = await self.clouds.session.read(resource, state)
        if read is None:
            self.said[key] = ["gone"]
            return state
        now = ResourceState(read.resource_id, read.inputs, read.outputs)
        before, after = [await self.changes(key, resource, inputs, one) for one in (state, now)]
        self.said[key] = [*(f"before a refresh: {path}" for path in before), *after]
        return now

    async def changes(self, key: str, resource: Resource, inputs: dict[str, Any], state: ResourceState) -> list[str]:
        """Paths that a preview would change."""
        checked = await self.clouds.session.check(resource, state.inputs, self.kept(key, inputs, state), seed=b"1" * 32)
        ignored = self.ignored.get(key, [])
        stored = ResourceState(state.resource_id, state.inputs, opened(state.outputs))
        found = await self.clouds.session.diff(resource, stored, checked.inputs, ignore_changes=ignored)
        return [path_text(path) for path in found.changes]

    def kept(self, key: str, inputs: dict[str, Any], state: ResourceState) -> dict[str, Any]:
        """The inputs as the engine hands them on: what is ignored is as it was."""
        found = copy.deepcopy(inputs)
        for path in map(parse_path, self.ignored.get(key, ())):
            before, after = at(state.inputs, path[:-1]), at(found, path[:-1])
            if not isinstance(after, dict):
                continue
            after.pop(path[-1], None)
            if isinstance(before, dict) and path[-1] in before:
                after[path[-1]] = copy.deepcopy(before[path[-1]])
        return found


def shown(value: Any) -> Any:
    """Outputs as the SDK takes them from the wire."""
    if isinstance(value, Secret):
        return wrap_rpc_secret(shown(value.value))
    if isinstance(value, Asset):
        return pulumi.FileAsset(str(value.path)) if value.path is not None else pulumi.StringAsset(str(value.text))
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, list) else value


def at(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(data, list):
            data = data[int(step)] if int(step) < len(data) else None
        else:
            data = data.get(step) if isinstance(data, dict) else None
    return data


def plain(args: pulumi.runtime.MockResourceArgs) -> dict[str, Any]:
    """Inputs in the provider's own types."""

    def of(value: Any) -> Any:
        if isinstance(value, pulumi.FileAsset):
            return Asset(path=str(value.path))
        if isinstance(value, pulumi.StringAsset):
            return Asset(text=value.text)
        if isinstance(value, dict):
            return {key: of(item) for key, item in value.items() if item is not None}
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return [of(item) for item in value] if isinstance(value, list) else value

    found: dict[str, Any] = of(dict(args.inputs))
    return found


def run(mocks: Up, stack: str) -> None:
    def note(args: pulumi.ResourceTransformationArgs) -> None:
        mocks.ignored[f"{args.type_} {args.name}"] = [str(path) for path in args.opts.ignore_changes or []]

    def program() -> None:
        pulumi.runtime.register_stack_transformation(note)
        declared.declare(stack)

    pulumi.runtime.set_mocks(mocks, project="encamp", stack=stack, preview=False)
    _sync_await(runtime_stack.run_pulumi_func(program))


def twice(clouds: Clouds, stack: str) -> dict[str, list[str]]:
    """What is refused at first and what would be changed then, by resource; under ``""`` how many there are."""
    states: dict[str, ResourceState] = {}
    written = declared.DEADLINE
    first = Up(clouds, states)
    run(first, stack)
    made = len(states)
    refreshed = {key: clouds.ask(clouds.refresh(key, state)) for key, state in states.items() if key[:4] == "gcp:"}
    clouds.ask(clouds.disturb())
    second = Again(clouds, states)
    declared.DEADLINE = str(int(written) + DAY)
    run(second, stack)
    declared.DEADLINE = written
    said = {**second.said, **{key: ["destroyed"] for key in states}, **first.said}
    for key, why in refreshed.items():
        said[key] = [*said.get(key, ()), *why]
    return {"": [str(made)], **{key: why for key, why in said.items() if why}}


def all_twice(arguments: list[str]) -> dict[str, dict[str, list[str]]]:
    """What is said of each stack of ``PROJECT=STACK,STACK...``, a cloud of its own for each argument."""
    found: dict[str, dict[str, list[str]]] = {}
    for argument in arguments:
        project, _, stacks = argument.partition("=")
        with tempfile.TemporaryDirectory() as root:
            clouds = Clouds(Path(root), project)
            found |= {stack: twice(clouds, stack) for stack in stacks.split(",")}
    return found
