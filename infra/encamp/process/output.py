"""A process's output as lines: whatever bytes come, in order, in bounded memory.

A line ends with LF or CR LF. A lone CR ends a piece that the terminal would draw over (a progress bar): it is
handed on as ``redrawn``, and the reader decides whether to show it. A line longer than the limit comes in
pieces, and what stands unfinished while the process pauses is handed on as it is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The longest piece that is kept in memory; containerd cuts log lines at the same length.
MAX_LINE_BYTES = 16 * 1024
#: How long an unfinished line waits for its rest.
PAUSE_SECONDS = 0.25
_UTF8_CONTINUATION = 0b10
_UTF8_LONGEST = 4


@dataclass(frozen=True)
class OutputLine:
    """One line or piece of a line, without its line end.

    Attributes:
        data: the bytes as written.
        ended: whether a line end followed; False for a piece cut by length, by a pause or by the end of the output.
        redrawn: whether that line end was a lone CR, so that a terminal writes over it.
    """

    data: bytes
    ended: bool = True
    redrawn: bool = False

    @property
    def text(self) -> str:
        """The bytes as UTF-8; invalid bytes show as hexadecimal escapes."""
        return self.data.decode("utf-8", "backslashreplace")


class LineSplitter:
    """Cuts a stream of bytes into lines; keeps less than ``limit`` bytes between calls."""

    def __init__(self, *, limit: int = MAX_LINE_BYTES, redraws: bool = True) -> None:
        """Take ``redraws``: whether a lone CR ends a piece; else it stays in the line."""
        self._limit = limit
        self._redraws = redraws
        self._held = b""
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[OutputLine]:
        """Yield every piece that ``data`` completes."""
        if not data:
            return
        if self._redraws:
            data = b"\r" + data if self._after_cr else data
            self._after_cr = data.endswith(b"\r")
            data = data.removesuffix(b"\r")
        for part in data.splitlines(keepends=True) if self._redraws else _lines(data):
            yield from self._part(part)

    def pause(self) -> Iterator[OutputLine]:
        """Yield what is unfinished, since nothing more comes for now."""
        if self._after_cr:
            self._after_cr = False
            yield OutputLine(self._take(), redrawn=True)
        elif self._held:
            yield OutputLine(self._take(), ended=False)

    def _part(self, part: bytes) -> Iterator[OutputLine]:
        body, end = _cut(part, redraws=self._redraws)
        self._held += body
        while len(self._held) > self._limit:
            at = _boundary(self._held, self._limit)
            yield OutputLine(self._held[:at], ended=False)
            self._held = self._held[at:]
        if end:
            yield OutputLine(self._take(), redrawn=end == b"\r")

    def _take(self) -> bytes:
        taken, self._held = self._held, b""
        return taken


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + [part for part in parts[-1:] if part]


def _cut(part: bytes, *, redraws: bool) -> tuple[bytes, bytes]:
    if part.endswith(b"\r\n"):
        return (part[:-2], b"\n") if redraws else (part[:-1], b"\n")
    if part.endswith(b"\n") or (redraws and part.endswith(b"\r")):
        return part[:-1], part[-1:]
    return part, b""


def _boundary(data: bytes, limit: int) -> int:
    """Return a cut that splits no UTF-8 character: at ``limit`` or up to three bytes before."""
    for at in range(limit, max(limit - _UTF8_LONGEST, 0), -1):
        if data[at] >> 6 != _UTF8_CONTINUATION:
            return at
    return limit


class LineReader(asyncio.Protocol):
    """Feeds a pipe into a line callback; ``done`` is set when the last writer has closed it.

    ``raw`` gets the same bytes as they come, before any line of them.
    """

    def __init__(
        self,
        callback: Callable[[OutputLine], None],
        *,
        redraws: bool = True,
        raw: Callable[[bytes], None] | None = None,
    ) -> None:
        self.done = asyncio.Event()
        self._callback = callback
        self._raw = raw
        self._splitter = LineSplitter(redraws=redraws)
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Pass on the lines of ``data``."""
        if self._raw is not None:
            self._raw(data)
        self._deliver(self._splitter.feed(data))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._pause)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the rest."""
        del exc
        if self._timer is not None:
            self._timer.cancel()
        self._pause()
        self.done.set()

    def _pause(self) -> None:
        self._timer = None
        self._deliver(self._splitter.pause())

    def _deliver(self, lines: Iterator[OutputLine]) -> None:
        for line in lines:
            self._callback(line)
