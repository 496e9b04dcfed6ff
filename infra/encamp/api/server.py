"""The process that serves: begins to listen, ends when it is told to, and loses no request that it has taken.

What it ends with is always the same as what a kill leaves: jobs and drivers know nothing of this process, so that a
call that does not end in time may be left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from encamp.api.connections import MOST_HEAD_BYTES, Crowd, GuardedProtocol, Limits, Settings
from encamp.api.gate import Gate
from encamp.errors import ExitCode

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

    from starlette.types import ASGIApp

    from encamp.api.listening import Listening

#: After the grace: for calls that were given up to be given up, and for everything to be closed.
LONGEST_END_SECONDS = 3.0
#: For requests that have arrived and were not read when it was told to end.
_ARRIVED_SECONDS = 0.05
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """uvicorn on sockets that are bound, without signal handlers of its own.

    Args:
        gate: around the service.
        started: called once it listens.
    """

    def __init__(self, gate: Gate, limits: Limits, started: Callable[[], None]) -> None:
        settings = Settings(
            gate,
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            # A trusted proxy may write any address into the audit log.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=limits.grace_seconds,
            timeout_keep_alive=limits.idle_seconds,
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        )
        settings.limits, settings.crowd = limits, Crowd()
        super().__init__(settings)
        self._gate = gate
        self._tell = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def end(self) -> None:
        """Take no new connection, and end when what is in flight is answered; may be called by a signal handler."""
        self._gate.ending = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what has come."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(_ARRIVED_SECONDS)
        await super().shutdown(sockets)


@dataclass(frozen=True)
class Service:
    """The served parts.

    Attributes:
        app: the service itself.
        ready: asks what it cannot do without, for probes; raises where it is not there. Called in a thread.
        credentials: whether callers are asked for any.
        close: closes in the server's event loop what was opened in it.
    """

    app: ASGIApp
    ready: Callable[[], object]
    credentials: bool
    close: Callable[[], Awaitable[None]] | None = None


def serve(
    service: Service,
    listening: Listening,
    *,
    limits: Limits,
    started: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once, and so does a call that will not end.

    For the main thread of a process that ends afterwards: the signals stay taken.

    Args:
        service: what is served.
        listening: where; it is closed in any case.
        limits: what is taken, and how long.
        started: called once it listens.
        say: gets a line for the operator.
    """
    # Invalid requests of strangers are no news, and would fill the log of our stderr.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    gate = Gate(service.app, ready=service.ready, open_to_this_machine=not service.credentials)
    server = Server(gate, limits, started)

    def told(number: int, _: FrameType | None) -> None:
        if server.should_exit:
            _leave(ExitCode.CANCELLED)
        # First of all: the second signal may come while the first is looked after.
        server.end()
        say(f"{signal.Signals(number).name}: ends when what is in flight is answered; once more ends at once")
        _end_after(limits.grace_seconds + LONGEST_END_SECONDS, say)

    for number in _SIGNALS:
        signal.signal(number, told)
    try:
        asyncio.run(_until_told(service, server, listening))
    finally:
        listening.close()


async def _until_told(service: Service, server: Server, listening: Listening) -> None:
    try:
        await server.serve(sockets=list(listening.sockets))
    finally:
        if service.close is not None:
            await service.close()


def _end_after(seconds: float, say: Callable[[str], None]) -> None:
    """End the process where it is still there then: a thread that hangs in a call would keep it for ever."""

    def end() -> None:
        say("a call did not end in time; it is left as it is")
        _leave(ExitCode.INFRASTRUCTURE_FAILED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _leave(code: ExitCode) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
