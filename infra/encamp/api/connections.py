"""Connections that cannot be held open by doing nothing: uvicorn's HTTP/1.1 with an end to every wait for a client.

uvicorn knows when a connection is idle; how long a head or a body may take to arrive, and an answer to be read, it
leaves to a proxy before it. Here nothing need stand before it. A connection that has shown no caller holds no place
against a newer one: when there are too many, the oldest of the address that has the most of them goes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    import asyncio

#: Key of a request's scope with the callback for a known caller.
KNOWN: Final = "encamp.known"
#: Bytes of a request's head: gcloud's are below 4 KiB, an ID token is about 1 KiB.
MOST_HEAD_BYTES: Final = 32 * 1024
_JSON: Final = (b"content-type", b"application/json; charset=UTF-8")


@dataclass(frozen=True)
class Limits:
    """Limits of one server.

    Attributes:
        head_seconds: until a request's head is there, from its first byte or from connecting.
        body_seconds: until its body is there, from the end of its head.
        idle_seconds: between two requests of a connection.
        stalled_seconds: until a client reads on.
        connections: at once; beyond them those make room that have shown no caller, and after that new ones are sent
            away.
        grace_seconds: for what is in flight when the server is told to end.
    """

    head_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: int = 60
    stalled_seconds: float = 30.0
    connections: int = 512
    grace_seconds: int = 50


class Crowd:
    """Connections on which no known caller's request is at work, by address; those that are so for longest first."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[GuardedProtocol, None]] = {}

    def add(self, connection: GuardedProtocol) -> None:
        """Put a connection behind all others of its address."""
        self._by_address.setdefault(connection.address, {})[connection] = None

    def remove(self, connection: GuardedProtocol) -> None:
        """Forget a connection."""
        own = self._by_address.get(connection.address, {})
        own.pop(connection, None)
        if not own:
            self._by_address.pop(connection.address, None)

    def make_room(self) -> bool:
        """Close one; False if there is none. Whoever opens very many closes their own."""
        most = max(self._by_address.values(), key=len, default=None)
        if most is None:
            return False
        first = next(iter(most))
        self.remove(first)
        first.transport.abort()
        return True


class Settings(uvicorn.Config):
    """uvicorn's settings, with ours.

    Attributes:
        limits: of each connection and of all.
        crowd: the connections that make room for newer ones.
    """

    limits: Limits
    crowd: Crowd


class GuardedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, config: Settings, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._limits = config.limits
        self._crowd = config.crowd
        self._receiving: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_body = False
        self._sent_away = False
        self._last = False

    @property
    def address(self) -> str:
        """Address of the client."""
        return self.client[0] if self.client else ""

    @property
    def idle(self) -> bool:
        """Whether nothing of a request has come that is not answered."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many."""
        # Any amount that cannot be sent at once counts as not read.
        transport.set_write_buffer_limits(high=0)
        full = len(self.connections) >= self._limits.connections and not self._crowd.make_room()
        super().connection_made(transport)
        if full:
            self._sent_away = True
            self._answer(ApiError("UNAVAILABLE", "The service has too many connections."), (b"retry-after", b"1"))
        else:
            self._crowd.add(self)
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every wait."""
        self._crowd.remove(self)
        self._received()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and begin to wait for the rest."""
        if self._sent_away or self.transport.is_closing():
            return
        if self._receiving is None:
            self._await_head()
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Resume with data that came meanwhile."""
        self._crowd.remove(self)
        self._crowd.add(self)
        super().on_response_complete()
        if not self.transport.is_closing():
            self._look()

    def handle_events(self) -> None:
        """Begin requests; of a server that is to end each is its connection's last."""
        super().handle_events()
        if self.scope is not None:
            self.scope[KNOWN] = self._known  # type: ignore[typeddict-unknown-key]
        if self._last and self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """End after the request that is being sent, or at once where there is none."""
        self._last = True
        if self.idle or self._sent_away:
            super().shutdown()
        elif self.cycle is not None:
            self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        """Wait for the client to read, and not for ever."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Resume writing, since the client reads."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the service's own form."""
        self._received()
        self._leave_app()
        self._answer(ApiError("INVALID_ARGUMENT", msg))

    def _known(self) -> None:
        """Note that the present request's caller is known: until it is answered, nobody may close its connection."""
        self._crowd.remove(self)

    def _look(self) -> None:
        """Start the timeout of the phase that h11 has seen of the request."""
        state = self.conn.their_state
        if state is h11.IDLE:
            # Idle is what uvicorn waits for itself, and what has not begun is not.
            if self.idle and self.timeout_keep_alive_task is not None:
                self._received()
            elif self._receiving is None:
                self._await_head()
        elif state is h11.SEND_BODY:
            if not self._in_body:
                self._received()
                self._in_body = True
                self._receiving = self.loop.call_later(self._limits.body_seconds, self._too_slow)
        else:
            self._received()

    def _await_head(self) -> None:
        self._received()
        self._receiving = self.loop.call_later(self._limits.head_seconds, self._too_slow)

    def _received(self) -> None:
        self._in_body = False
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _too_slow(self) -> None:
        what = "body" if self._in_body else "head"
        begun = self._in_body or self.conn.trailing_data[0]
        self._received()
        self._leave_app()
        if begun:
            self._answer(ApiError("DEADLINE_EXCEEDED", f"The request's {what} did not come in time.", code=408))
        else:
            self.transport.abort()

    def _leave_app(self) -> None:
        """Tell the app that nobody waits for its answer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _answer(self, error: ApiError, *headers: tuple[bytes, bytes]) -> None:
        """Answer without the app, and close; where the app has begun to, close."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps(error.body()).encode()
        length = (b"content-length", str(len(body)).encode())
        whole = [_JSON, length, (b"connection", b"close"), *headers]
        start = h11.Response(status_code=error.code, headers=whole, reason=HTTPStatus(error.code).phrase.encode())
        try:
            for part in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        except h11.LocalProtocolError:
            # Such as an answer to HEAD, which has no body.
            self.transport.abort()
        else:
            self.transport.close()
