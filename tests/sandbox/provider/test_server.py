"""The provider base, in one process: a real gRPC server and a client that speaks as the engine does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import grpc
import grpc.aio
import pytest
from google.protobuf.empty_pb2 import Empty

from encamp.errors import SandboxError
from encamp_sandbox.provider import (
    UNKNOWN,
    CheckResult,
    Configuration,
    CreateResult,
    DiffResult,
    Failure,
    InitError,
    InvokeResult,
    Properties,
    Provider,
    ProviderError,
    ProviderServer,
    ReadResult,
    Resource,
    ResourceState,
    Secret,
    Session,
    diff,
    messages,
)
from encamp_sandbox.provider.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

URN = "urn:pulumi:dev::proj::parent:x:Y$toy:index:Thing::thing"


class ToySession(Session):
    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        self.configuration = configuration
        self.seen: list[Properties] = []
        self.release = asyncio.Event()

    async def check(self, resource: Resource, olds: Properties, news: Properties, *, seed: bytes) -> CheckResult:
        failures = [] if news.get("size") != 0 else [Failure("size", "must not be 0")]
        return CheckResult({"name": olds.get("name", f"{resource.name}-{seed.hex()[:4]}"), **news}, failures)

    async def diff(
        self, resource: Resource, state: ResourceState, news: Properties, *, ignore_changes: Any
    ) -> DiffResult:
        del resource, ignore_changes
        return diff(state.inputs, news, replace=lambda path: path == ("name",), delete_before_replace=True)

    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        del time_limit
        self.seen.append(inputs)
        if preview:
            return CreateResult("", {**inputs, "address": UNKNOWN})
        match inputs.get("mode"):
            case "refuse":
                raise ProviderError("quota exceeded", where=resource.name, hint="ask for less")
            case "half":
                raise InitError("id-half", {**inputs, "ready": False}, ["never became ready"])
            case "bug":
                raise ZeroDivisionError("oops")
            case "slow":
                await self.cancelled.wait()
                raise ProviderError("cancelled while waiting")
            case "outlive":
                await self.release.wait()
        return CreateResult("id-1", {**inputs, "owner": self.configuration.text("owner"), "key": Secret("made")})

    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        del resource
        if state.resource_id == "gone":
            return None
        return ReadResult(state.resource_id, state.inputs or {"name": "imported"}, {"name": "live"})

    async def update(
        self,
        resource: Resource,
        state: ResourceState,
        news: Properties,
        *,
        time_limit: float | None,
        preview: bool,
        ignore_changes: Any,
    ) -> Properties:
        del resource, time_limit, preview, ignore_changes
        return {**state.outputs, **news}

    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        del resource, time_limit
        self.seen.append({"deleted": state.resource_id})

    async def invoke(self, token: str, args: Properties, *, preview: bool) -> InvokeResult:
        if not token.endswith(":echo"):
            return await super().invoke(token, args, preview=preview)
        return InvokeResult(args)


class ToyProvider(Provider):
    name: ClassVar[str] = "toy"
    version: ClassVar[str] = "1.2.3"

    def __init__(self) -> None:
        self.sessions: list[ToySession] = []

    async def configure(self, configuration: Configuration) -> ToySession:
        if configuration.text("owner") == "nobody":
            raise SandboxError("nobody may not use this")
        self.sessions.append(ToySession(configuration))
        return self.sessions[-1]


class Engine:
    """One engine connection to the provider."""

    def __init__(self, port: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        self.stub: Any = messages.provider_pb2_grpc.ResourceProviderStub(self.channel)

    async def configure(self, **args: Any) -> None:
        handshake = await self.stub.Handshake(
            messages.provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:1")
        )
        assert handshake.accept_secrets
        answer = await self.stub.Configure(messages.provider_pb2.ConfigureRequest(args=encode(args)))
        assert answer.supportsPreview

    def create(self, *, preview: bool = False, **inputs: Any) -> Any:
        request = messages.provider_pb2.CreateRequest(urn=URN, properties=encode(inputs), preview=preview)
        return self.stub.Create(request)


@asynccontextmanager
async def engines(count: int = 1) -> AsyncGenerator[tuple[ProviderServer, ToyProvider, list[Engine]]]:
    provider = ToyProvider()
    server = ProviderServer(provider)
    port = await server.start()
    clients = [Engine(port) for _ in range(count)]
    for number, client in enumerate(clients):
        await client.configure(owner=f"owner-{number}")
    try:
        yield server, provider, clients
    finally:
        for client in clients:
            await client.channel.close()
        await server.stop(grace=0.1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110  the toy has no event for it
            await asyncio.sleep(0.01)


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@in_loop
async def test_every_connection_has_its_own_configuration() -> None:
    async with engines(2) as (_, _, (first, second)):
        one, two = await asyncio.gather(first.create(size=1), second.create(size=2))
        assert decode(one.properties)["owner"] == "owner-0"
        assert decode(two.properties)["owner"] == "owner-1"


@in_loop
async def test_secret_inputs_arrive_open_and_stay_secret() -> None:
    async with engines() as (_, provider, (engine,)):
        answer = await engine.create(password=Secret("s3"), nested={"list": [1, Secret({"a": 1})]}, open="x")
        assert provider.sessions[0].seen[-1] == {"password": "s3", "nested": {"list": [1, {"a": 1}]}, "open": "x"}
        outputs = decode(answer.properties)
        assert outputs["password"] == Secret("s3")
        assert outputs["nested"] == {"list": [1, Secret({"a": 1})]}
        assert outputs["open"] == "x"
        assert outputs["key"] == Secret("made")


@in_loop
async def test_check_fills_in_and_reports_every_failure_and_keeps_secrets() -> None:
    async with engines() as (_, _, (engine,)):
        request = messages.provider_pb2.CheckRequest(
            urn=URN, news=encode({"size": 0, "password": Secret("s3"), "later": UNKNOWN}), randomSeed=b"\xab\xcd"
        )
        answer = await engine.stub.Check(request)
        checked = {"name": "thing-abcd", "size": 0, "password": Secret("s3"), "later": UNKNOWN}
        assert decode(answer.inputs) == checked
        assert [(failure.property, failure.reason) for failure in answer.failures] == [("size", "must not be 0")]


@in_loop
async def test_diff_tells_every_path_and_what_forces_a_replacement() -> None:
    async with engines() as (_, _, (engine,)):
        request = messages.provider_pb2.DiffRequest(
            id="id-1",
            urn=URN,
            old_inputs=encode({"name": "a", "tags": {"x.y/z": 1}, "list": [1, 2]}),
            olds=encode({"name": "a", "computed": True}),
            news=encode({"name": "b", "tags": {"x.y/z": 2}, "list": [1], "new": UNKNOWN}),
        )
        answer = await engine.stub.Diff(request)
        kinds = messages.provider_pb2.PropertyDiff.Kind
        assert {path: entry.kind for path, entry in answer.detailedDiff.items()} == {
            "name": kinds.UPDATE_REPLACE,
            'tags["x.y/z"]': kinds.UPDATE,
            "list[1]": kinds.DELETE,
            "new": kinds.ADD,
        }
        assert list(answer.replaces) == ["name"]
        assert answer.deleteBeforeReplace
        assert answer.changes == messages.provider_pb2.DiffResponse.DIFF_SOME


@in_loop
async def test_no_difference_is_said_outright() -> None:
    async with engines() as (_, _, (engine,)):
        same = encode({"count": 3, "on": True})
        answer = await engine.stub.Diff(messages.provider_pb2.DiffRequest(urn=URN, old_inputs=same, news=same))
        assert answer.changes == messages.provider_pb2.DiffResponse.DIFF_NONE


@in_loop
async def test_a_preview_may_leave_outputs_unknown() -> None:
    async with engines() as (_, _, (engine,)):
        answer = await engine.create(preview=True, size=1)
        assert decode(answer.properties) == {"size": 1, "address": UNKNOWN}


@in_loop
async def test_an_error_of_ours_is_the_text_the_user_reads() -> None:
    async with engines() as (_, _, (engine,)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await engine.create(mode="refuse")
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert caught.value.details() == "thing: quota exceeded\n  try: ask for less"


@in_loop
async def test_a_half_made_resource_carries_its_id_and_outputs() -> None:
    async with engines() as (_, _, (engine,)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await engine.create(mode="half", password=Secret("s3"))
        metadata: dict[str, Any] = dict(caught.value.trailing_metadata())
        status = messages.status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
        detail = messages.provider_pb2.ErrorResourceInitFailed()
        assert status.details[0].Unpack(detail)
        assert detail.id == "id-half"
        assert list(detail.reasons) == ["never became ready"]
        assert decode(detail.properties) == {"mode": "half", "password": Secret("s3"), "ready": False}


@in_loop
async def test_a_bug_is_internal_and_ends_nothing_else() -> None:
    async with engines() as (_, _, (engine,)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await engine.create(mode="bug")
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert caught.value.details() == "ZeroDivisionError: oops"
        assert (await engine.create()).id == "id-1"


@in_loop
async def test_cancel_gets_through_while_fifty_creates_wait_and_hits_only_its_own_run() -> None:
    async with engines(2) as (_, provider, (engine, other)):
        waiting = [asyncio.ensure_future(engine.create(mode="slow")) for _ in range(50)]
        elsewhere = asyncio.ensure_future(other.create(mode="outlive"))
        await until(lambda: len(provider.sessions[0].seen) == 50 and bool(provider.sessions[1].seen))
        await asyncio.wait_for(engine.stub.Cancel(Empty()), 2)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {str(getattr(result, "details", str)()) for result in results} == {"cancelled while waiting"}
        assert not provider.sessions[1].cancelled.is_set()
        provider.sessions[1].release.set()
        assert (await elsewhere).id == "id-1"


@in_loop
async def test_an_operation_outlives_the_engine_that_asked_for_it() -> None:
    async with engines() as (server, provider, (engine,)):
        call = asyncio.ensure_future(engine.create(mode="outlive"))
        await until(lambda: bool(provider.sessions[0].seen))
        call.cancel()
        await asyncio.wait_for(provider.sessions[0].cancelled.wait(), 2)
        connection = next(iter(server.connections.values()))
        assert connection.running == 1
        provider.sessions[0].release.set()
        await until(lambda: connection.running == 0)


@in_loop
async def test_read_says_gone_by_an_empty_id_and_imports_give_inputs() -> None:
    async with engines() as (_, _, (engine,)):
        gone = await engine.stub.Read(messages.provider_pb2.ReadRequest(id="gone", urn=URN))
        assert gone.id == ""
        imported = await engine.stub.Read(messages.provider_pb2.ReadRequest(id="x", urn=URN))
        assert (imported.id, decode(imported.inputs)) == ("x", {"name": "imported"})


@in_loop
async def test_update_delete_and_invoke() -> None:
    async with engines() as (_, provider, (engine,)):
        request = messages.provider_pb2.UpdateRequest(
            id="i", urn=URN, olds=encode({"a": 1}), news=encode({"b": Secret(2)})
        )
        assert decode((await engine.stub.Update(request)).properties) == {"a": 1, "b": Secret(2)}
        await engine.stub.Delete(messages.provider_pb2.DeleteRequest(id="i", urn=URN))
        assert provider.sessions[0].seen[-1] == {"deleted": "i"}
        echo = messages.provider_pb2.InvokeRequest(tok="toy:index:echo", args=encode({"n": 1}))
        assert decode(getattr(await engine.stub.Invoke(echo), "return")) == {"n": 1}
        with pytest.raises(grpc.aio.AioRpcError, match="does not serve the function toy:index:other"):
            await engine.stub.Invoke(messages.provider_pb2.InvokeRequest(tok="toy:index:other"))


@in_loop
async def test_schema_and_parameters_are_refused() -> None:
    async with engines() as (_, _, (engine,)):
        for call, request in (
            (engine.stub.GetSchema, messages.provider_pb2.GetSchemaRequest()),
            (engine.stub.Parameterize, messages.provider_pb2.ParameterizeRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(request)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@in_loop
async def test_a_connection_that_configured_nothing_is_told_so() -> None:
    async with engines() as (server, _, _):
        stranger = Engine(server.port)
        with pytest.raises(grpc.aio.AioRpcError, match="has not configured the provider"):
            await stranger.create()
        with pytest.raises(grpc.aio.AioRpcError, match="nobody may not use this"):
            await stranger.configure(owner="nobody")
        await stranger.channel.close()


@in_loop
async def test_a_taken_port_is_an_error() -> None:
    async with engines() as (server, provider, _):
        with pytest.raises(ProviderError, match=f"port {server.port} is taken"):
            await ProviderServer(provider, server.port).start()


@in_loop
async def test_idle_connections_are_forgotten() -> None:
    async with engines(2) as (server, provider, (first, _)):
        idle = next(peer for peer, held in server.connections.items() if held.session is provider.sessions[1])
        server.connections[idle].used -= 3600
        await first.create()
        assert idle not in server.connections
        assert provider.sessions[1].cancelled.is_set()
