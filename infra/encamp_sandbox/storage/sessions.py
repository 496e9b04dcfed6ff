"""Resumable upload sessions: their state is a row and a file, so they go on after a kill.

Source: cloud.google.com/storage/docs/performing-resumable-uploads and .../resumable-uploads.

Beliefs: storage-resumable-goes-on, storage-resumable-is-cancelled.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from encamp_sandbox.storage.buckets import bucket_row
from encamp_sandbox.storage.digests import Digests, check_digests, digests_of
from encamp_sandbox.storage.errors import StorageError, invalid
from encamp_sandbox.storage.model import Conditions, check_object_name
from encamp_sandbox.storage.objects import Content

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator, Iterator, Mapping

    from encamp_sandbox.database import Database
    from encamp_sandbox.storage.objects import Objects

_WEEK_SECONDS = 7 * 24 * 3600
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(frozen=True)
class ContentRange:
    """A Content-Range of an upload: where the bytes begin (None: a question about the state) and the total if known."""

    start: int | None
    total: int | None

    @classmethod
    def of(cls, header: str | None) -> ContentRange | None:
        """Read the header; None without one."""
        if header is None:
            return None
        found = _RANGE.fullmatch(header.strip())
        if not found:
            raise invalid("Failed to parse Content-Range header.")
        start, _, total = found.groups()
        return cls(int(start) if start else None, None if total == "*" else int(total))


class Sessions:
    """The resumable uploads of one storage server."""

    def __init__(self, database: Database, objects: Objects) -> None:
        self._database = database
        self._objects = objects
        self._digests: dict[str, Digests] = {}
        self._busy: set[str] = set()

    def start(self, bucket: str, name: str, body: Mapping[str, Any], query: Mapping[str, Any]) -> str:
        """Open a session; its id is a secret that lets its holder write this one object."""
        check_object_name(name)
        Conditions.of(query)
        session = uuid4().hex
        with self._database.transaction() as change:
            bucket_row(self._database, bucket)
            change.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, NULL)",
                (session, bucket, name, json.dumps(dict(body)), json.dumps(dict(query)), time.time()),
            )
        return session

    async def write(
        self, session: str, span: ContentRange | None, stream: AsyncIterator[bytes]
    ) -> tuple[int, dict[str, Any] | None]:
        """Take the next bytes: how many there are now, and the object if that was the end."""
        row = self._row(session)
        if row["result"]:
            return 0, json.loads(row["result"])
        with self._held(session):
            digests = self._running(session)
            if span is None or span.start is not None:
                start = span.start if span and span.start is not None else digests.size
                await self._append(session, digests, start, stream)
            total = digests.size if span is None else span.total
            if total is not None and digests.size > total:
                raise invalid(f"The upload holds {digests.size} bytes, more than its total of {total}")
            if total != digests.size:
                return digests.size, None
            return digests.size, self._finish(session, digests)

    def cancel(self, session: str) -> None:
        """Drop a session and its bytes."""
        self._row(session)
        with self._database.transaction() as change:
            change.execute("DELETE FROM sessions WHERE id = ?", (session,))
        self._digests.pop(session, None)
        self._objects.session_file(session).unlink(missing_ok=True)

    def expire(self) -> None:
        """Drop sessions older than a week, which is how long Google keeps them."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM sessions WHERE created < ?", (time.time() - _WEEK_SECONDS,))

    def _row(self, session: str) -> Any:
        row = self._database.one("SELECT * FROM sessions WHERE id = ?", session)
        if row is None:
            raise StorageError(404, "notFound", "No such upload session.")
        return row

    @contextmanager
    def _held(self, session: str) -> Iterator[None]:
        """Hold a session for one writer: a second one would interleave its bytes."""
        if session in self._busy:
            raise StorageError(503, "backendError", "This upload session is being written by another request.")
        self._busy.add(session)
        try:
            yield
        finally:
            self._busy.discard(session)

    def _running(self, session: str) -> Digests:
        """Return the checksums of the bytes so far; read again from the file after a restart."""
        path = self._objects.session_file(session)
        if session not in self._digests:
            path.touch(mode=0o600)
            self._digests[session] = digests_of(path)
        return self._digests[session]

    async def _append(self, session: str, digests: Digests, start: int, stream: AsyncIterator[bytes]) -> None:
        if start > digests.size:
            raise StorageError(503, "backendError", f"Bytes from {digests.size} on are missing.")
        skip = digests.size - start
        with self._objects.session_file(session).open("ab", buffering=0) as file:
            async for chunk in stream:
                fresh = chunk[skip:]
                skip -= len(chunk) - len(fresh)
                _write(file, fresh, digests.size)
                digests.update(fresh)

    def _finish(self, session: str, digests: Digests) -> dict[str, Any]:
        row = self._row(session)
        query, body = json.loads(row["query"]), json.loads(row["body"])
        try:
            check_digests(body, digests)
        except StorageError:
            self.cancel(session)
            raise
        self._digests.pop(session)
        return self._objects.put(
            row["bucket"],
            row["name"],
            body,
            Content(self._objects.session_file(session), digests),
            Conditions.of(query),
            overwrite=query.get("overwrite", True),
            session=session,
        )


def _write(file: io.FileIO, content: bytes, size: int) -> None:
    """Append all of it, or nothing: a disk that becomes full takes a part without a word.

    ``size`` is how long the file was before.
    """
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[file.write(rest) or 0 :]
    except OSError:
        file.truncate(size)
        raise
