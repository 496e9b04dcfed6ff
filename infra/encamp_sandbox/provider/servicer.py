"""The ResourceProvider service: each call's message to plain data, the provider's answer back to a message.

What the engine may ask of a provider and what this one refuses: ``proto/pulumi/provider.proto`` of the engine.
"""

# ruff: noqa: N802  the names of the methods are the protocol's
from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.empty_pb2 import Empty

from encamp_sandbox.provider import messages
from encamp_sandbox.provider.compare import Change, DiffResult
from encamp_sandbox.provider.interface import Configuration, InitError, ProviderError, Resource, ResourceState
from encamp_sandbox.provider.values import INPUTS_KEY, Properties, Value, conceal, decode, encode, plain, secret_paths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from encamp_sandbox.provider.interface import CheckResult, Failure, Session
    from encamp_sandbox.provider.server import Connection, ProviderServer

Context = Any
Message = Any


class Servicer(messages.provider_pb2_grpc.ResourceProviderServicer):
    """Answers the engine's calls by the server's provider; every method is one RPC."""

    def __init__(self, server: ProviderServer) -> None:
        self._server = server
        self._provider = server.provider

    async def Handshake(self, request: Message, context: Context) -> Message:
        """Learn the engine's address; tell what values we take."""

        async def work(connection: Connection) -> Message:
            connection.engine = request.engine_address
            return messages.provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

        return await self._server.guard(context, work)

    async def Attach(self, request: Message, context: Context) -> Message:
        """Learn the engine's address, when it attaches to a running provider."""

        async def work(connection: Connection) -> Message:
            connection.engine = request.address
            return Empty()

        return await self._server.guard(context, work)

    async def GetPluginInfo(self, request: Message, context: Context) -> Message:
        """Return the provider's version."""
        del request, context
        return messages.plugin_pb2.PluginInfo(version=self._provider.version)

    async def Configure(self, request: Message, context: Context) -> Message:
        """Make this connection's session."""

        async def work(connection: Connection) -> Message:
            args = plain(decode(request.args)) if request.args else dict(request.variables)
            configuration = Configuration(args, request.urn, connection.engine)
            previous = connection.session
            connection.session = await self._provider.configure(configuration)
            if previous:
                await previous.close()
            return messages.provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

        return await self._server.guard(context, work)

    async def CheckConfig(self, request: Message, context: Context) -> Message:
        """Validate the provider's own inputs."""

        async def work(_: Connection) -> Message:
            news = decode(request.news)
            result = await self._provider.check_config(request.urn, plain(decode(request.olds)), plain(news))
            return _checked(result, news)

        return await self._server.guard(context, work)

    async def DiffConfig(self, request: Message, context: Context) -> Message:
        """Compare the provider's own inputs."""

        async def work(_: Connection) -> Message:
            olds = plain(decode(request.old_inputs)) or plain(decode(request.olds))
            return _difference(await self._provider.diff_config(request.urn, olds, plain(decode(request.news))))

        return await self._server.guard(context, work)

    async def Check(self, request: Message, context: Context) -> Message:
        """Validate a resource's inputs."""

        async def work(session: Session) -> Message:
            news = decode(request.news)
            result = await session.check(
                _resource(request), plain(decode(request.olds)), plain(news), seed=bytes(request.randomSeed)
            )
            return _checked(result, news)

        return await self._session(context, work)

    async def Diff(self, request: Message, context: Context) -> Message:
        """Compare a resource's inputs."""

        async def work(session: Session) -> Message:
            state = _state(request.id, request.old_inputs, request.olds)
            ignored = list(request.ignoreChanges)
            news = plain(decode(request.news))
            return _difference(await session.diff(_resource(request), state, news, ignore_changes=ignored))

        return await self._session(context, work)

    async def Create(self, request: Message, context: Context) -> Message:
        """Create a resource."""

        async def work(session: Session) -> Message:
            inputs = decode(request.properties)
            limit = request.timeout or None
            with _secrets_kept(inputs):
                result = await session.create(
                    _resource(request), plain(inputs), time_limit=limit, preview=request.preview
                )
            return messages.provider_pb2.CreateResponse(
                id=result.resource_id, properties=_outputs(result.outputs, inputs)
            )

        return await self._session(context, work)

    async def Read(self, request: Message, context: Context) -> Message:
        """Read a resource."""

        async def work(session: Session) -> Message:
            inputs = decode(request.inputs)
            state = ResourceState(request.id, plain(inputs), plain(decode(request.properties)))
            with _secrets_kept(inputs):
                result = await session.read(_resource(request), state)
            if result is None:
                return messages.provider_pb2.ReadResponse()
            return messages.provider_pb2.ReadResponse(
                id=result.resource_id,
                properties=_outputs(result.outputs, inputs),
                inputs=_outputs(result.inputs, inputs),
            )

        return await self._session(context, work)

    async def Update(self, request: Message, context: Context) -> Message:
        """Change a resource."""

        async def work(session: Session) -> Message:
            news = decode(request.news)
            with _secrets_kept(news):
                outputs = await session.update(
                    _resource(request),
                    _state(request.id, request.old_inputs, request.olds),
                    plain(news),
                    time_limit=request.timeout or None,
                    preview=request.preview,
                    ignore_changes=list(request.ignoreChanges),
                )
            return messages.provider_pb2.UpdateResponse(properties=_outputs(outputs, news))

        return await self._session(context, work)

    async def Delete(self, request: Message, context: Context) -> Message:
        """Delete a resource."""

        async def work(session: Session) -> Message:
            state = _state(request.id, request.old_inputs, request.properties)
            await session.delete(_resource(request), state, time_limit=request.timeout or None)
            return Empty()

        return await self._session(context, work)

    async def Invoke(self, request: Message, context: Context) -> Message:
        """Call a function."""

        async def work(session: Session) -> Message:
            args = decode(request.args)
            result = await session.invoke(request.tok, plain(args), preview=request.preview)
            response = messages.provider_pb2.InvokeResponse(failures=_failures(result.failures))
            setattr(response, "return", encode(result.outputs))
            return response

        return await self._session(context, work)

    async def Cancel(self, request: Message, context: Context) -> Message:
        """Make the session end its waits; never waits for an operation itself."""
        del request
        connection = await self._server.connection(context.peer())
        if connection.session:
            connection.session.cancelled.set()
        return Empty()

    async def GetMapping(self, request: Message, context: Context) -> Message:
        """Return no mapping from other ecosystems."""
        del request, context
        return messages.provider_pb2.GetMappingResponse()

    async def GetMappings(self, request: Message, context: Context) -> Message:
        """Return no mappings from other ecosystems."""
        del request, context
        return messages.provider_pb2.GetMappingsResponse()

    async def GetSchema(self, request: Message, context: Context) -> None:
        """Refuse: the SDK in use brings its schema."""
        del request
        await self._refuse(context, "has no schema of its own; use the published SDK")

    async def Parameterize(self, request: Message, context: Context) -> None:
        """Refuse: none of our packages has parameters."""
        del request
        await self._refuse(context, "cannot be parameterized")

    async def _refuse(self, context: Context, what: str) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the sandbox's provider of {self._provider.name} {what}")

    async def _session(self, context: Context, work: Callable[[Session], Awaitable[Message]]) -> Message:
        async def configured(connection: Connection) -> Message:
            if connection.session is None:
                raise ProviderError(
                    "this connection has not configured the provider",
                    where=f"provider {self._provider.name}",
                    hint="run the command again; the provider may have been restarted in the middle of it",
                )
            return await work(connection.session)

        return await self._server.guard(context, configured)


def _resource(request: Message) -> Resource:
    urn = request.urn
    kind = request.type or urn.split("::")[2].rsplit("$", 1)[-1]
    return Resource(token=kind, urn=urn, name=request.name or urn.split("::", 3)[-1])


def _state(resource_id: str, inputs: bytes, outputs: bytes) -> ResourceState:
    return ResourceState(resource_id, plain(decode(inputs)), plain(decode(outputs)))


@contextmanager
def _secrets_kept(inputs: Properties) -> Generator[None]:
    try:
        yield
    except InitError as error:
        error.outputs = _concealed(error.outputs, inputs)
        raise


def _outputs(outputs: Properties, inputs: Value) -> bytes:
    return encode(_concealed(outputs, inputs))


def _concealed(outputs: Properties, inputs: Value) -> Properties:
    """Return outputs with a secret wherever the inputs have one, also in the inputs that are kept among them."""
    paths = set(secret_paths(inputs))
    return conceal(outputs, paths | {(INPUTS_KEY, *path) for path in paths})


def _checked(result: CheckResult, news: Properties) -> Message:
    return messages.provider_pb2.CheckResponse(
        inputs=_outputs(result.inputs, news), failures=_failures(result.failures)
    )


def _failures(failures: Sequence[Failure]) -> list[Message]:
    return [
        messages.provider_pb2.CheckFailure(property=failure.property, reason=failure.reason) for failure in failures
    ]


def _difference(result: DiffResult) -> Message:
    types = messages.provider_pb2
    detailed = {}
    for path, change in result.changes.items():
        kind = f"{change.name}_REPLACE" if path in result.replaces else change.name
        of_inputs = not result.of_outputs or change is Change.DELETE
        detailed[result.write(path)] = types.PropertyDiff(kind=types.PropertyDiff.Kind.Value(kind), inputDiff=of_inputs)
    tops = list(dict.fromkeys(str(path[0]) for path in result.changes))
    return types.DiffResponse(
        changes=types.DiffResponse.DIFF_SOME if result.changes else types.DiffResponse.DIFF_NONE,
        diffs=tops,
        replaces=list(dict.fromkeys(result.write(path) for path in result.changes if path in result.replaces)),
        detailedDiff=detailed,
        hasDetailedDiff=True,
        stables=list(result.stables),
        deleteBeforeReplace=result.delete_before_replace,
    )
