"""The form of answers: JSON, whole or in part, and errors in the form of Google's APIs."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.api.errors import ApiError
from encamp.api.partial import part
from encamp.api.routing import WrongVerbError
from encamp.run.store.database_trouble import is_full
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from starlette.types import Send

    from encamp.api.parameters import Asked

_LOG = logging.getLogger(__name__)
_JSON: Final = b"application/json; charset=UTF-8"
#: PostgreSQL's code of a full disk.
_OK: Final = 200
_SERVER_ERROR: Final = 500
#: Bytes that are sent in one part.
_AT_ONCE: Final = 256 * 1024

#: A JSON value, or its text in UTF-8 where that is there already.
Answer = Any


@dataclass(frozen=True)
class Reply:
    """An answer on its way: HTTP code, body, headers beside the usual ones, and Content-Type."""

    code: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    kind: bytes = _JSON

    @property
    def is_told(self) -> bool:
        """Whether its reader knows what became of the call: after a 5xx clients ask again."""
        return self.code < _SERVER_ERROR

    def head(self) -> list[tuple[bytes, bytes]]:
        """Return its headers."""
        return [
            (b"content-type", self.kind),
            (b"content-length", str(len(self.body)).encode()),
            (b"cache-control", b"private"),
            (b"x-content-type-options", b"nosniff"),
            *self.headers,
        ]

    async def send(self, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.code, "headers": self.head()})
        # The server waits between two parts for the client to read, and others get their turn.
        for at in range(0, len(self.body) or 1, _AT_ONCE):
            more = at + _AT_ONCE < len(self.body)
            await send({"type": "http.response.body", "body": self.body[at : at + _AT_ONCE], "more_body": more})


def data_of(answer: Answer) -> Any:
    """Return an answer as JSON data."""
    return json.loads(answer) if isinstance(answer, bytes) else answer


def reply_of(answer: Answer, asked: Asked) -> Reply:
    """Return an answer in the form that was asked for."""
    if asked.pretty:
        return Reply(_OK, json.dumps(part(data_of(answer), asked.fields), indent=2).encode() + b"\n")
    if asked.fields or not isinstance(answer, bytes):
        answer = json.dumps(part(data_of(answer), asked.fields), separators=(",", ":")).encode()
    return Reply(_OK, answer)


def refusal(error: ApiError) -> Reply:
    """Return a refusal, with line breaks: people read it."""
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, WrongVerbError):
        headers.append((b"allow", error.allowed.encode()))
    if error.status == "UNAUTHENTICATED":
        headers.append((b"www-authenticate", b'Bearer realm="encamp"'))
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    return Reply(error.code, json.dumps(error.body(), indent=2).encode() + b"\n", tuple(headers))


def told(trouble: Exception, what: str) -> ApiError:
    """Return the error for a caller from an exception; the process's own log has the details of an unexpected one.

    ``what`` was being done.
    """
    if isinstance(trouble, ApiError):
        return trouble
    if isinstance(trouble, RecordError):
        _LOG.error("%s: %s", what, trouble)
        if is_full(trouble):
            message = "The disk of the job records is full, so nothing was changed. Make room, then try again."
            return ApiError("UNAVAILABLE", f"{message} What only reads goes on.", retry_after=10)
        return ApiError("UNAVAILABLE", "The job records cannot be used at the moment; try again.")
    _LOG.error("%s failed", what, exc_info=trouble)
    return ApiError("INTERNAL", "Internal error encountered.")
