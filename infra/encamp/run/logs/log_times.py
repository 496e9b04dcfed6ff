"""The arrival times of log text: a file beside the logs, so that these stay the bytes that were written.

Each line of the file says how far every replica's log had come at a time, for those that had grown since the line
before. It is the order in which whoever followed the logs got them: its times only grow, nothing is added to the past.
"""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.run.times import read_micros, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

TIMES = "times.jsonl"
#: Seconds for which arrivals are gathered before a line is written.
GATHER_SECONDS = 0.5
#: Least distance of two lines, so that what lies between them can be told apart by its own times.
STEP = 1_000
_TAIL_BYTES = 64 * 1024
#: Seconds between two lines until the file has so many bytes, and after: a week takes some megabytes.
_PACES = ((256 * 1024, GATHER_SECONDS), (1024 * 1024, 2.0), (4 * 1024 * 1024, 5.0))
_LAST_PACE = 10.0


@dataclass(frozen=True)
class Frame:
    """The sizes of all logs at one time: ``at`` in microseconds since the epoch, ``ends`` in bytes."""

    at: int
    ends: Mapping[str, int]


@dataclass(frozen=True)
class Grown:
    """The same as it was read: begin and end of each log's new part."""

    at: int
    parts: Mapping[str, tuple[int, int]]


class LogTimes:
    """Writes the times of one folder of logs, on from where an earlier process stopped.

    Args:
        folder: of the spool.
        clock: seconds since the epoch.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = folder / TIMES
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, int] = {}
        self._last: int | None = None
        self._size = 0
        self._broken = False

    def grown(self, replica: str, end: int) -> None:
        """Note that a replica's log has so many bytes now."""
        with self._lock:
            self._ends[replica] = end

    def flush(self, *, paced: bool = False) -> None:
        """Write down what came since; where the disk is full it is tried again with what comes next.

        ``paced``: not before its time, which comes the later the longer the file is.
        """
        with self._lock:
            if not self._ends or (paced and self._early()):
                return
            try:
                self._write()
            except OSError:
                self._broken = True

    def _early(self) -> bool:
        pace = next((seconds for size, seconds in _PACES if self._size < size), _LAST_PACE)
        return self._last is not None and 0 <= self._clock() - self._last / 1e6 < pace

    def _write(self) -> None:
        if self._last is None:
            self._last = self._found()
        at = max(int(self._clock() * 1e6), self._last + STEP)
        line = json.dumps({"at": written(at), "ends": self._ends}, sort_keys=True, separators=(",", ":"))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            text = (b"\n" if self._broken else b"") + line.encode() + b"\n"
            self._broken = os.write(descriptor, text) < len(text)
            self._size += len(text)
        finally:
            os.close(descriptor)
        self._last = at
        if not self._broken:
            self._ends = {}

    def _found(self) -> int:
        """Return the latest recorded time, 0 without one."""
        try:
            with self._path.open("rb") as stream:
                self._size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, self._size - _TAIL_BYTES))
                tail = stream.read()
        except FileNotFoundError:
            return 0
        # A process that was killed may have left half a line.
        self._broken = not tail.endswith(b"\n") and bool(tail)
        return max((frame.at for frame in map(frame_of, tail.split(b"\n")) if frame is not None), default=0)


class Frames:
    """The times of one folder or object as they were read; only ever more."""

    def __init__(self) -> None:
        self.size = 0
        self.ends: dict[str, int] = {}
        self._found: list[Grown] = []

    @property
    def last(self) -> int:
        """The latest time, 0 without one."""
        return self._found[-1].at if self._found else 0

    def between(self, low: int, high: int) -> list[Grown]:
        """Return the text that came between two times, both included."""
        begin = bisect_left(self._found, low, key=_at)
        return self._found[begin : bisect_right(self._found, high, key=_at)]

    def stamps(self, replica: str) -> list[tuple[int, int]]:
        """Return pairs of a replica's log: an offset, and the time at which it was reached, by growing offsets."""
        return [(grown.parts[replica][1], grown.at) for grown in self._found if replica in grown.parts]

    def look(self, folder: Path) -> None:
        """Take what was added to a folder's file since."""
        try:
            with (folder / TIMES).open("rb") as stream:
                stream.seek(self.size)
                text = stream.read()
        except FileNotFoundError:
            return
        self.feed(text[: text.rfind(b"\n") + 1])

    def feed(self, text: bytes) -> None:
        """Take whole lines; of one that is damaged, or tells nothing new, nothing."""
        self.size += len(text)
        for line in text.splitlines():
            frame = frame_of(line)
            if frame is None or frame.at <= self.last:
                continue
            # After its death a reader begins a little before the place it had reached.
            parts = {name: (self.ends.get(name, 0), end) for name, end in frame.ends.items()}
            parts = {name: (begin, end) for name, (begin, end) in parts.items() if begin < end}
            if parts:
                self.ends.update({name: end for name, (_, end) in parts.items()})
                self._found.append(Grown(frame.at, parts))


def _at(grown: Grown) -> int:
    return grown.at


def frame_of(line: bytes) -> Frame | None:
    """Return the frame of a line of the file, None for a malformed line."""
    try:
        data: Any = json.loads(line)
        return Frame(read_micros(data["at"]), {str(name): int(end) for name, end in data["ends"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
