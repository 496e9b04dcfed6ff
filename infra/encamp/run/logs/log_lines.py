"""The lines of all logs of a job in one order, with their times, from any time on; only what is asked for is read.

The order is that in which the text came, see ``log_times``; lines that came together are in the order of their
replicas' names. A log of which nobody wrote that down has one time for all of it, the last that the job had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from encamp.run.logs.log_times import STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.run.logs.log_times import Frames

#: Longer text of one time is cut into several pieces, a microsecond apart.
PIECE = 1024 * 1024
#: A longer line becomes several.
LONGEST = 64 * 1024
#: Ends the lines that a replica's script took from the trainer's stderr: ``STDERR_MARK`` of ``templates/bootstrap.py``.
#: Kubernetes' log has both streams in one (belief ``kubernetes-log-streams-are-one``).
STDERR_MARK = b" \t "


@dataclass(frozen=True)
class Line:
    """A line of a log, without the mark of where it came from.

    Attributes:
        at: microseconds since the epoch.
        offset: its place in its log in bytes.
        stderr: whether the trainer wrote it to its stderr; False if nobody could tell, such as of an image that runs
            without encamp's script.
    """

    at: int
    replica: str
    offset: int
    text: bytes
    stderr: bool = False


class Texts(Protocol):
    """The logs of one job, of which any part can be read."""

    @property
    def frames(self) -> Frames:
        """The times of text, as far as they were written down."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each log in bytes; of a growing one only the part that has a time."""
        ...

    def read(self, replica: str, begin: int, end: int) -> bytes:
        """Return a part of a log; less where there is no more.

        Raises:
            RestError: it cannot be read.
        """
        ...


@dataclass(frozen=True)
class _Part:
    at: int
    replica: str
    begin: int
    end: int


def lines(texts: Texts, low: int, high: int, *, ended: int = 0, newest_first: bool = False) -> Iterator[Line]:
    """Yield the lines that came between two times, both included.

    ``ended`` is the time of what has none of its own, but for the last one that is known where that is later.
    """
    parts = [part for part in _parts(texts, low, high, ended) if low <= part.at <= high]
    parts.sort(key=lambda part: (part.at, part.replica), reverse=newest_first)
    for part in parts:
        found = _read(texts, part)
        yield from reversed(list(found)) if newest_first else found


def last_time(texts: Texts, ended: int) -> int:
    """Return the time of the last line, or ``ended`` where that is later."""
    last = texts.frames.last
    return max([ended, last, *(part.at for part in _parts(texts, last, last + STEP, ended))])


def _parts(texts: Texts, low: int, high: int, ended: int) -> Iterator[_Part]:
    """Yield the parts of logs that came about then, in pieces."""
    frames = texts.frames
    for grown in frames.between(low - STEP, high):
        for replica, (begin, end) in grown.parts.items():
            yield from _pieces(grown.at, replica, begin, end)
    rest = max(ended, frames.last + STEP)
    for replica, size in texts.sizes.items():
        yield from _pieces(rest, replica, frames.ends.get(replica, 0), size)


def _pieces(at: int, replica: str, begin: int, end: int) -> Iterator[_Part]:
    for number, start in enumerate(range(begin, end, PIECE)):
        yield _Part(at + number, replica, start, min(start + PIECE, end))


def _read(texts: Texts, part: _Part) -> Iterator[Line]:
    """Yield the lines that begin in a part; the last of them may end behind it."""
    at = max(0, part.begin - 1)
    text = texts.read(part.replica, at, part.end)
    if part.begin:
        before, newline, text = text.partition(b"\n")
        at += len(before + newline)
    *whole, rest = text.split(b"\n")
    for line in whole:
        yield from _cut(part, at, line)
        at += len(line) + 1
    while rest:
        more = texts.read(part.replica, at + len(rest), at + len(rest) + LONGEST)
        head, newline, _ = more.partition(b"\n")
        rest += head
        if newline or not more:
            yield from _cut(part, at, rest)
            return
        while len(rest) > LONGEST:
            # Its place is at its end, which nobody has read.
            yield Line(part.at, part.replica, at, rest[:LONGEST])
            at, rest = at + LONGEST, rest[LONGEST:]


def _cut(part: _Part, at: int, line: bytes) -> Iterator[Line]:
    text = plain(line)
    stderr = len(text) < len(line)
    for begin in range(0, max(1, len(text)), LONGEST):
        yield Line(part.at, part.replica, at + begin, text[begin : begin + LONGEST], stderr)


def plain(line: bytes) -> bytes:
    """Return a line as the trainer wrote it."""
    return line.removesuffix(STDERR_MARK)
