"""Parts of a replica's log: its last lines, or those since a time, with times; only what is asked for is read.

A line's time is when whoever read the log got it, within half a second, see ``log_times``; of a log that only the
cluster has it is Kubernetes' own, to the second. What nobody wrote a time of came at the job's end, or now while it
goes on.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.cloud.rest import RestError
from encamp.run.logs.manifest import sealed_place, verified_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.history.sealed import FoundLog

#: Bytes of a log up to an offset had come at a time: pairs of that end and of microseconds since the epoch.
Stamps = list[tuple[int, int]]

_BLOCK = 64 * 1024
_PIECE = 1024 * 1024
#: A longer line becomes several.
_LONGEST = 1024 * 1024
_GONE = 404


@dataclass(frozen=True)
class LogPart:
    """The part of a log to show.

    Attributes:
        since: microseconds since the epoch, None for its beginning.
        tail: how many of its last lines, None for all.
    """

    since: int | None = None
    tail: int | None = None


@dataclass(frozen=True)
class TimedLine:
    """A line with its time in microseconds since the epoch; ``end`` is the offset behind its line break."""

    at: int
    text: bytes
    end: int


@dataclass
class LogView:
    """One replica's log, any part of which can be read.

    Attributes:
        stamps: by growing ends.
        rest: the time of what the stamps do not reach.
    """

    log: FoundLog
    size: int
    read: Callable[[int, int], bytes]
    stamps: Stamps
    rest: int
    _ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._ends = [end for end, _ in self.stamps]

    def lines(self, part: LogPart) -> Iterator[TimedLine]:
        """Yield the lines of a part, the oldest first."""
        begin = 0 if part.since is None else self._since(part.since)
        if part.tail is not None:
            begin = max(begin, self._tail(part.tail))
        held, at = b"", begin
        while at < self.size:
            piece = self.read(at, min(at + _PIECE, self.size))
            if not piece:
                break
            at += len(piece)
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                yield self._line(begin, line, len(line) + 1)
                begin += len(line) + 1
            if len(held) >= _LONGEST:
                yield self._line(begin, held, len(held))
                begin, held = begin + len(held), b""
        if held:
            yield self._line(begin, held, len(held))

    def whole_lines(self) -> int:
        """Return the offset behind the last complete line; behind the last byte if the log is sealed."""
        end = self.size
        if isinstance(self.log.source, dict):
            return end
        while end:
            low = max(0, end - _BLOCK)
            found = self.read(low, end).rfind(b"\n")
            if found >= 0:
                return low + found + 1
            end = low
        return 0

    def _line(self, begin: int, text: bytes, length: int) -> TimedLine:
        found = bisect_right(self._ends, begin)
        return TimedLine(self.stamps[found][1] if found < len(self.stamps) else self.rest, text, begin + length)

    def _since(self, at: int) -> int:
        """Return the offset of the text that came at a time or later."""
        found = bisect_left([one for _, one in self.stamps], at)
        if found == len(self.stamps) and self.rest < at:
            return self.size
        return self._ends[found - 1] if found else 0

    def _tail(self, lines: int) -> int:
        """Return the offset of the last lines: read from the end, block by block."""
        begin, missing = self.size, lines
        last = True
        while begin and missing > 0:
            low = max(0, begin - _BLOCK)
            block = self.read(low, begin)
            # The break at the log's very end ends its last line and begins none.
            found = len(block) - 1 if last and block.endswith(b"\n") else len(block)
            last = False
            while missing and (found := block.rfind(b"\n", 0, found)) >= 0:
                missing -= 1
                if not missing:
                    return low + found + 1
            begin = low
        return 0 if missing else self.size


def reader(log: FoundLog, storage: Storage) -> tuple[int, Callable[[int, int], bytes]]:
    """Return a log's size, and what reads a part of it.

    Of a sealed log the generation is read that was sealed: an object never changes under its generation. Where the
    manifest does not name it, or the object was copied since, the log is compared with its SHA-256 first.
    """
    if isinstance(log.source, dict):
        return int(log.source["size"]), _SealedLog(log.source, storage).read
    if log.source is None:
        return 0, lambda _begin, _end: b""
    path = log.source
    return path.stat().st_size, lambda begin, end: _part(path, begin, end)


class _SealedLog:
    def __init__(self, entry: dict[str, Any], storage: Storage) -> None:
        self._entry = entry
        self._storage = storage
        self._generation = str(entry.get("generation") or "")
        self._verified = False

    def read(self, begin: int, end: int) -> bytes:
        bucket, name = sealed_place(self._entry)
        if begin >= end:
            return b""
        if not self._generation:
            self._verify()
        try:
            return self._download(bucket, name, begin, end)
        except RestError as error:
            if error.status != _GONE or self._verified:
                raise
        self._verify()
        return self._download(bucket, name, begin, end)

    def _verify(self) -> None:
        self._generation = verified_generation(self._entry, self._storage)
        self._verified = True

    def _download(self, bucket: str, name: str, begin: int, end: int) -> bytes:
        pieces = self._storage.download(bucket, name, begin=begin, end=end, generation=self._generation)
        return b"".join(pieces)


def merged(before: Stamps, after: Stamps) -> Stamps:
    """Return stamps of a log of which the beginning was read by one and the end by another."""
    if not after:
        return before
    return [one for one in before if one[0] < after[0][0] and one[1] <= after[0][1]] + after


def _part(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as stream:
        return os.pread(stream.fileno(), end - begin, begin)
