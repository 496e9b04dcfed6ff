"""A small HTTP/1.1 server for GET: the log server and the metadata server need the client's certificate or address.

The usual servers hide both from what they serve (uvicorn does not pass on peer certificates).
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Handler = Callable[["Request"], Awaitable["Answer"]]

_LOG = logging.getLogger(__name__)
_HEAD_SECONDS = 30.0
_LONGEST_BODY = 1 << 20


@dataclass(frozen=True)
class Request:
    """A request; header names are lower case.

    Attributes:
        peer: IP address of the client.
        certificate: the client's certificate as ssl.getpeercert gives it, None without one.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    peer: str
    certificate: Mapping[str, Any] | None


@dataclass(frozen=True)
class Answer:
    """An answer; a body that is an iterator is sent as it comes."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, data: Any, status: int = 200) -> Answer:
        """Return JSON data."""
        return cls(status, json.dumps(data).encode(), "application/json")

    @classmethod
    def text(cls, text: str, status: int = 200) -> Answer:
        """Return a line of text."""
        return cls(status, text.encode())


async def serve(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection; to be given to asyncio.start_server with ``functools.partial``."""
    try:
        while (request := await _request(reader, writer)) is not None:
            try:
                answer = await handler(request)
            except Exception:  # noqa: BLE001 - one request must not end the server
                _LOG.exception("%s %s", request.method, request.path)
                answer = Answer.text("internal error\n", 500)
            await _send(answer, request, writer)
            if request.headers.get("connection", "").lower() == "close":
                return
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return  # the client went away, or speaks no HTTP
    except asyncio.CancelledError:
        return  # the server ends; asyncio's streams would report a cancelled handler as an error
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    async with asyncio.timeout(_HEAD_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        if length := int(headers.get("content-length", 0)):
            await reader.readexactly(min(length, _LONGEST_BODY))
    parts = urlsplit(target)
    ssl = writer.get_extra_info("ssl_object")
    return Request(
        method=method,
        path=unquote(parts.path),
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers=headers,
        peer=writer.get_extra_info("peername")[0],
        certificate=ssl.getpeercert() or None if ssl else None,
    )


async def _send(answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
    length = f"Content-Length: {len(answer.body)}" if isinstance(answer.body, bytes) else "Transfer-Encoding: chunked"
    head = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        length,
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    if request.method != "HEAD":
        if isinstance(answer.body, bytes):
            writer.write(answer.body)
        else:
            await writer.drain()
            async for piece in answer.body:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    await writer.drain()
