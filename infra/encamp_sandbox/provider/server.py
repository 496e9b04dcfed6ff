"""Serves a ``Provider`` to Pulumi engines over gRPC.

The engine dials every provider instance on a connection of its own, so the session that ``Configure`` makes is kept
under the connection's peer address, and one server serves several explicit providers and several runs at once. gRPC has
no credentials here: the port takes connections of this user alone (``encamp.guard``).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from encamp.errors import EncampError
from encamp.guard.passage import Passage
from encamp_sandbox.provider import messages
from encamp_sandbox.provider.interface import InitError, ProviderError
from encamp_sandbox.provider.servicer import Servicer
from encamp_sandbox.provider.values import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from encamp_sandbox.provider.interface import Provider, Session

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 45 * 60
"""A session without a call for so long is dropped: after 30 idle minutes the engine's gRPC client redials anyway."""

MESSAGE_BYTES: Final = 400 * 1024 * 1024
"""The engine's own limit (``rpcutil.GrpcChannelOptions``)."""

GRACE_SECONDS: Final = 5.0


@dataclass
class Connection:
    """One engine connection: its configuration, and its running operations."""

    engine: str = ""
    session: Session | None = None
    running: int = 0
    used: float = 0.0


class ProviderServer:
    """A provider on a loopback port, in the running event loop.

    Args:
        provider: what is served.
        port: TCP port on 127.0.0.1; 0 takes a free one.
        folder: for the server's unix socket; a temporary one if None.
    """

    def __init__(self, provider: Provider, port: int = 0, folder: Path | None = None) -> None:
        self.provider = provider
        self.port = port
        self.connections: dict[str, Connection] = {}
        self._operations: set[asyncio.Task[Any]] = set()
        self._server: grpc.aio.Server | None = None
        self._folder = folder
        self._passage: Passage | None = None

    async def start(self) -> int:
        """Listen, and return the port.

        Raises:
            ProviderError: the port is taken.
        """
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MESSAGE_BYTES),
            ("grpc.max_send_message_length", MESSAGE_BYTES),
        ]
        server = grpc.aio.server(options=options)
        messages.provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(self), server)
        try:
            self._passage = Passage(self.port, self._folder)
        except OSError as error:
            raise ProviderError(f"port {self.port} is taken", where=f"provider {self.provider.name}") from error
        server.add_insecure_port(self._passage.address)
        await server.start()
        await self._passage.start()
        self._server, self.port = server, self._passage.port
        return self.port

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Take no more calls, give running ones ``grace`` seconds, and close every session."""
        for connection in self.connections.values():
            if connection.session:
                connection.session.cancelled.set()
        if self._passage:
            self._passage.stop_accepting()
        if self._server:
            await self._server.stop(grace)
        if self._passage:
            await self._passage.stop()
        if self._operations:
            await asyncio.wait(self._operations, timeout=grace)
        for connection in self.connections.values():
            if connection.session:
                await connection.session.close()
        self.connections.clear()

    async def wait(self) -> None:
        """Return when the server has stopped."""
        if self._server:
            await self._server.wait_for_termination()

    async def connection(self, peer: str) -> Connection:
        """Return the connection of a peer; forgets those that have been idle for long."""
        now = time.monotonic()
        for other, idle in list(self.connections.items()):
            if other != peer and not idle.running and now - idle.used > IDLE_SECONDS:
                del self.connections[other]
                if idle.session:
                    await idle.session.close()
        known = self.connections.setdefault(peer, Connection())
        known.used = now
        return known

    async def guard(
        self, context: grpc.aio.ServicerContext[Any, Any], work: Callable[[Connection], Awaitable[Any]]
    ) -> Any:
        """Run one operation to its end, even when its caller goes away, and turn its errors into gRPC's."""
        connection = await self.connection(context.peer())
        connection.running += 1
        task = asyncio.ensure_future(work(connection))
        self._operations.add(task)
        task.add_done_callback(lambda _: self._done(task, connection))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if connection.session:
                connection.session.cancelled.set()
            raise
        except InitError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error), _init_failed(error))
        except EncampError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            logger.exception("a bug in the provider %s", self.provider.name)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    def _done(self, task: asyncio.Task[Any], connection: Connection) -> None:
        self._operations.discard(task)
        connection.running -= 1
        connection.used = time.monotonic()
        if not task.cancelled() and isinstance(error := task.exception(), EncampError):
            logger.info("%s", error)


def _init_failed(error: InitError) -> tuple[tuple[str, bytes], ...]:
    detail = messages.provider_pb2.ErrorResourceInitFailed(
        id=error.resource_id,
        properties=encode(error.outputs),
        reasons=error.reasons,
        inputs=encode(error.inputs or {}),
    )
    status = messages.status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error))
    status.details.add().Pack(detail)
    return (("grpc-status-details-bin", status.SerializeToString()),)


async def serve(provider: Provider, port: int, folder: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    server = ProviderServer(provider, port, folder)
    await server.start()
    logger.info("%s provider on 127.0.0.1:%d", provider.name, server.port)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    await server.stop()


def run_provider(provider: Provider, port: int, folder: Path, *, level: int = logging.INFO) -> None:
    """Run as the provider's process: log to stderr, serve until a signal; ``folder`` is for its unix socket."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # One line per request of a provider's own HTTP client says nothing that an error would not.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(serve(provider, port, folder))
