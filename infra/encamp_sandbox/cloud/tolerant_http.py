"""HTTP/1.1 as TensorFlow speaks it.

Its Cloud Storage client sends ``Transfer-Encoding: identity`` with an empty body, which RFC 7230 took out of HTTP
and h11 refuses, and which Google still takes. The header is dropped before h11 sees it, in heads only, never in bodies.
Source: tensorflow third_party/xla/third_party/tsl/tsl/platform/cloud/curl_http_request.cc (SetPostEmptyBody).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

_IDENTITY = re.compile(rb"\r\ntransfer-encoding:[ \t]*identity[ \t]*(?=\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"
_MAX_HEAD = 1 << 16


class TolerantProtocol(H11Protocol):
    """uvicorn's h11 protocol behind a filter for heads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        self._head = b""
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hold back a head until it is whole; hand on everything else as it comes."""
        if self.conn.their_state is h11.IDLE:
            self._head += data
            end = self._head.find(_END)
            if end < 0 and len(self._head) < _MAX_HEAD:
                return
            head, body = self._head[: end + 2], self._head[end + 2 :]
            data, self._head = _IDENTITY.sub(b"", head) + body, b""
        super().data_received(data)
