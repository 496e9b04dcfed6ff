"""Containers' logs on disk in the format of the container runtime interface, and reading them as kubectl asks.

A line is ``TIME STREAM TAG TEXT``; the tag is F, or P where the line goes on in the next entry (source:
k8s.io/cri-client/pkg/logs). A file each for every start of a container: ``POD/CONTAINER/RESTART.log``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from encamp.process import OutputLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

_POLL_SECONDS = 0.1
#: A job could have the kubelet write without end.
_MOST_NOTICES = 100


class LogFile:
    """The log of one start of a container, open for writing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("ab", buffering=0)

    def write(self, stream: str, line: OutputLine) -> None:
        """Append a line or a piece of one; a redrawn piece keeps its CR."""
        if self._file.closed:
            return
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        tag = "F" if line.ended and not line.redrawn else "P"
        self._file.write(f"{moment} {stream} {tag} ".encode() + line.data + (b"\r\n" if line.redrawn else b"\n"))

    def close(self) -> None:
        """Close the log: nothing more comes."""
        self._file.close()


class Writer(Protocol):
    """The owner of a log."""

    def tell(self, line: OutputLine) -> None:
        """Write a line of the kubelet's own."""
        ...


class Notices:
    """The kubelet's own lines in the logs of a pod's containers: each text once, and so many at most.

    Args:
        writers: gives the containers.
    """

    def __init__(self, writers: Callable[[], Iterable[Writer]]) -> None:
        self._writers = writers
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        """Write a line."""
        if text in self._told or len(self._told) >= _MOST_NOTICES:
            return
        self._told.add(text)
        for writer in self._writers():
            writer.tell(OutputLine(text.encode()))


@dataclass(frozen=True)
class LogQuery:
    """The requested part of a log; the names are those of the API's PodLogOptions."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None

    @classmethod
    def from_parameters(cls, parameters: dict[str, str]) -> LogQuery:
        """Read the query of a request. Raises ValueError."""
        since = None
        if seconds := parameters.get("sinceSeconds"):
            since = datetime.now(UTC) - timedelta(seconds=float(seconds))
        elif moment := parameters.get("sinceTime"):
            since = datetime.fromisoformat(moment)
        tail, limit = parameters.get("tailLines"), parameters.get("limitBytes")
        return cls(
            follow=parameters.get("follow") == "true",
            tail_lines=int(tail) if tail else None,
            since=since,
            timestamps=parameters.get("timestamps") == "true",
            limit_bytes=int(limit) if limit else None,
        )


async def read(path: Path, query: LogQuery, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log as bytes; when following, until ``ended`` says that the container writes no more."""
    left = query.limit_bytes
    with path.open("rb") as file:
        if query.tail_lines is not None:
            file.seek(_start_of_tail(path, query.tail_lines))
        while True:
            final = ended()
            while entry := file.readline():
                if not entry.endswith(b"\n"):  # it is being written
                    file.seek(-len(entry), 1)
                    break
                piece = _shown(entry, query)
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                if piece:
                    yield piece
                if left == 0:
                    return
            if final or not query.follow:
                return
            await asyncio.sleep(_POLL_SECONDS)


def _start_of_tail(path: Path, lines: int) -> int:
    """Return the offset of the last ``lines`` whole lines; an unfinished line counts as one."""
    starts: deque[int] = deque(maxlen=lines)
    at, fresh = 0, True
    with path.open("rb") as file:
        for entry in file:
            if fresh and lines:
                starts.append(at)
            at += len(entry)
            fresh = entry.split(b" ", 3)[2:3] == [b"F"]
    return starts[0] if starts else at


def _shown(entry: bytes, query: LogQuery) -> bytes:
    moment, _, tag, text = entry[:-1].split(b" ", 3)
    if query.since is not None and datetime.fromisoformat(moment.decode()) < query.since:
        return b""
    return (moment + b" " if query.timestamps else b"") + text + (b"\n" if tag == b"F" else b"")


def last_lines(path: Path, *, lines: int, size: int) -> str:
    """Return the last lines of a log as text of at most ``size`` bytes, for a termination message."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(_start_of_tail(path, lines))
        text = b"".join(_shown(entry, LogQuery()) for entry in file)
    return text[-size:].decode("utf-8", "replace")
