"""Batches: several calls in one request of multipart/mixed, each a request of HTTP of its own; and their answers.

Sources: cloud.google.com/storage/docs/batch (the form of all of Google's JSON APIs: headers of the request around its
parts hold for those that have none of their own); googleapiclient/http.py, which writes bare line feeds and tells
answers by their Content-ID.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from encamp.api.answering import Reply
from encamp.api.errors import ApiError
from encamp.api.methods import AuditKind, Method

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.datastructures import Headers

#: Path of batch requests: as the discovery document says, and as Google's other APIs have it.
PATHS: Final = frozenset({"/batch", "/batch/ml/v1"})
#: Name in the audit log of a batch that is refused as a whole; its parts have entries of their own.
BATCH: Final = Method(
    "batch", "POST", "batch", None, "encamp.Batch", AuditKind.DATA_ACCESS, "Empty", "Several calls in one request."
)
#: Calls in one batch, bytes of all answers, and how long all of them may take.
MOST_PARTS: Final = 100
MOST_ANSWER_BYTES: Final = 8 * 2**20
MOST_SECONDS: Final = 60.0
_LONGEST_HEAD: Final = 32 * 1024
_MOST_HEADERS: Final = 100
_BOUNDARY: Final = re.compile(r"""boundary=(?:"([^"]{1,200})"|'?([^\s;"']{1,200})'?)""", re.IGNORECASE)
_BLANK: Final = re.compile(rb"\r?\n\r?\n")
_FOLD: Final = re.compile(rb"\r?\n[ \t]+")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([\x20-\x7e\t]*?)[ \t]*")
_REQUEST: Final = re.compile(rb"([A-Z]{1,20}) (/[\x21-\x7e]{0,20000}) HTTP/1\.[01]")
#: Headers that a part inherits from the request around it.
_INHERITED: Final = (b"authorization", b"user-agent")
_NO_CONTENT_ID: Final = b"<encamp + %d>"


@dataclass(frozen=True)
class Part:
    """One call of a batch.

    Attributes:
        content_id: by which its sender knows it.
        scope: of ASGI, as of a request of its own.
        error: why it is no call that could be carried out; the scope is empty then.
    """

    content_id: bytes
    scope: dict[str, Any]
    body: bytes = b""
    error: ApiError | None = None


def parts_of(body: bytes, headers: Headers) -> list[Part]:
    """Return the calls of a batch; ``headers`` are those of the request around them.

    Raises:
        ApiError: INVALID_ARGUMENT; it is no batch, or has too many parts.
    """
    kind = headers.get("content-type", "")
    found = _BOUNDARY.search(kind)
    if not kind.lower().startswith("multipart/mixed") or found is None:
        raise ApiError("INVALID_ARGUMENT", 'A batch is sent as multipart/mixed; boundary="...".')
    texts = list(_split(body, (found[1] or found[2]).encode()))
    if not texts:
        raise ApiError("INVALID_ARGUMENT", "The batch has no parts.")
    if len(texts) > MOST_PARTS:
        raise ApiError("INVALID_ARGUMENT", f"The batch has {len(texts)} parts; at most {MOST_PARTS}.")
    outer = [(name, headers[name.decode()].encode("latin-1")) for name in _INHERITED if name.decode() in headers]
    return [_part(text, number, outer) for number, text in enumerate(texts, 1)]


def answer_of(replies: Sequence[tuple[bytes, Reply]]) -> Reply:
    """Return the answer to a batch: each reply with the Content-ID of its call."""
    boundary = b"batch_" + secrets.token_hex(16).encode()
    lines: list[bytes] = []
    for content_id, reply in replies:
        phrase = HTTPStatus(reply.code).phrase.encode()
        head = b"".join(b"%s: %s\r\n" % header for header in reply.head())
        lines += [
            b"--%s\r\nContent-Type: application/http\r\nContent-ID: %s\r\n\r\n" % (boundary, _answered(content_id)),
            b"HTTP/1.1 %d %s\r\n%s\r\n" % (reply.code, phrase, head),
            reply.body,
            b"\r\n",
        ]
    lines.append(b"--%s--\r\n" % boundary)
    return Reply(HTTPStatus.OK, b"".join(lines), kind=b"multipart/mixed; boundary=" + boundary)


def _split(body: bytes, boundary: bytes) -> Iterator[bytes]:
    """Yield the texts between the lines of a boundary."""
    pieces = re.split(rb"(?:\A|\r?\n)--" + re.escape(boundary) + rb"(--)?[ \t]*(?=\r?\n|\Z)", body)
    # Pieces and, between two of them, whether the boundary was the last one.
    for at in range(2, len(pieces), 2):
        if pieces[at - 1] is not None:
            return
        yield pieces[at]


def _part(text: bytes, number: int, outer: list[tuple[bytes, bytes]]) -> Part:
    content_id = _NO_CONTENT_ID % number
    try:
        # The line of the boundary ends where the part's own headers begin.
        head, content = _parted(text if text.startswith((b"\n", b"\r\n")) else b"\n" + text)
        headers = _headers(head)
        content_id = headers.get(b"content-id", content_id)
        if not headers.get(b"content-type", b"").lower().startswith(b"application/http"):
            raise _wrong("a part is application/http")
        head, inner_body = _parted(b"\n" + content.lstrip(b"\r\n"))
        line, _, rest = head.partition(b"\n")
        request = _REQUEST.fullmatch(line.rstrip(b"\r"))
        if request is None:
            raise _wrong("a part begins with a line such as GET /v1/projects/P/jobs HTTP/1.1")
        own = _headers(rest)
    except ApiError as error:
        return Part(content_id, {}, error=error)
    given = [*own.items(), *((name, value) for name, value in outer if name not in own)]
    path, _, query = request[2].partition(b"?")
    scope = {
        "type": "http",
        "method": request[1].decode(),
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": given,
    }
    if scope["path"] in PATHS:
        return Part(content_id, {}, error=_wrong("a batch holds no other batch"))
    return Part(content_id, scope, inner_body.strip(b"\r\n"))


def _parted(text: bytes) -> tuple[bytes, bytes]:
    """Return the head and body of a text that begins with the line end before its first header."""
    blank = _BLANK.search(text)
    head, body = (text[: blank.start()], text[blank.end() :]) if blank else (text, b"")
    if len(head) > _LONGEST_HEAD:
        raise _wrong(f"a head is longer than {_LONGEST_HEAD} bytes")
    return head.lstrip(b"\r\n"), body


def _headers(head: bytes) -> dict[bytes, bytes]:
    """Return headers by lowercase name; the first of each."""
    found: dict[bytes, bytes] = {}
    lines = [line for line in _FOLD.sub(b" ", head).split(b"\n") if line.strip()]
    if len(lines) > _MOST_HEADERS:
        raise _wrong(f"a part has more than {_MOST_HEADERS} headers")
    for line in lines:
        header = _HEADER.fullmatch(line.rstrip(b"\r"))
        if header is None:
            raise _wrong("a line is no header")
        found.setdefault(header[1].lower(), header[2])
    return found


def _answered(content_id: bytes) -> bytes:
    """Return the Content-ID of an answer: ``<response-...>``."""
    return b"<response-" + content_id[1:] if content_id.startswith(b"<") else b"response-" + content_id


def _wrong(why: str) -> ApiError:
    return ApiError("INVALID_ARGUMENT", f"A part of the batch cannot be read: {why}.")
