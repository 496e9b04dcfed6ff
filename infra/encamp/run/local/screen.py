"""The lines of all replicas in one stream of text, each under its replica's name; bytes in, text out.

A replica's lines keep their order and are never mixed within a line. What a replica draws over (a lone CR), and a
line that it has not finished yet, stand in the last row of a terminal until they are done; where there is no
terminal, a bar is written when it is finished, and every ten seconds before that.

Nothing of a replica steers the terminal: colours pass where we use colours, all else that is no text is removed or
shown as an escape.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections import deque
from typing import TYPE_CHECKING

from encamp.process import OutputLine
from encamp.process.output import MAX_LINE_BYTES
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Seconds between two writes of an unfinished bar without a terminal.
BAR_SECONDS = 10.0
#: Number of lines of each replica that are remembered, for the account of a failure.
TAIL_LINES = 20
#: Seconds that a replica has the last row of the terminal for itself, if several draw.
_ROW_SECONDS = 1.0
#: Colours of prefixes, one replica after the other: those that are read well on black and on white.
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_RESET = "\x1b[0m"
_ERASE = "\r\x1b[K"
#: Colours (the group); every other sequence that a terminal obeys; steps back, as bars make before they draw anew.
_STEERING = re.compile(r"(\x1b\[[\d;:]*m)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[^\[\]]|\x08")


def wants_colour(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether to colour: on a terminal that can, unless NO_COLOR is set to anything (no-color.org)."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def shown(text: str, *, colour: bool) -> str:
    """Return text of a replica as it may stand in one row of a terminal."""
    if text.isprintable():
        return text
    parts = _STEERING.split(text)  # text, colour or None, text, ...
    parts[::2] = [visible(part or "", kept="\t") for part in parts[::2]]
    colours = [part for part in parts[1::2] if part] if colour else []
    return "".join(part for part in (parts if colours else parts[::2]) if part) + (_RESET if colours else "")


class Screen:
    """Puts the lines of all replicas into one stream of text.

    Args:
        write: gets text that is to be written, line ends included.
        names: every replica, so that all prefixes have one width.
        terminal: whether a person looks at it as it is written.
        colour: whether prefixes are coloured, and colours of replicas kept.
        width: columns of the terminal.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        names: Sequence[str],
        *,
        terminal: bool = False,
        colour: bool = False,
        width: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._terminal = terminal
        self._colour = colour
        self._width = width
        self._clock = clock
        self._begun = clock()
        self._longest = max((len(name) for name in names), default=0)
        self._rows: dict[str, _Row] = {}
        self._last_row: _Row | None = None
        self._since = self._begun
        self._lit = ""
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        """Add replicas."""
        self._longest = max(self._longest, *map(len, names), 0)
        for name in names:
            taken = {row.colour for row in self._rows.values()}
            colour = next((one for one in _COLOURS if one not in taken), _COLOURS[len(self._rows) % len(_COLOURS)])
            self._rows[name] = _Row(f"{name:<{self._longest}} | ", colour)

    def has(self, name: str) -> bool:
        """Whether it is one of the replicas."""
        return name in self._rows

    def drop(self, names: Sequence[str]) -> None:
        """Drop replicas that have ended and write no more."""
        for name in names:
            self.ended(name)
            row = self._rows.pop(name)
            self._last_row = None if self._last_row is row else self._last_row

    def say(self, text: str) -> None:
        """Show a line of encamp itself, with the seconds since the start."""
        self._put(f"[{self._clock() - self._begun:6.1f}s] {text}\n")

    def text(self, text: str) -> None:
        """Show lines of encamp itself, as they are."""
        self._put(f"{text}\n")

    def line(self, replica: str, piece: OutputLine) -> None:
        """Show a line of a replica, or a piece of one."""
        row = self._rows[replica]
        whole = "".join(self._finished(row, data) for data in row.take(piece))
        if self._terminal:
            self._settle(row, whole)
        elif whole or row.is_due(self._clock()):
            self._put(whole or self._as_line(row, row.show(self._clock())))

    def ended(self, replica: str) -> None:
        """End a replica's output, for now: an unfinished rest becomes a line."""
        row = self._rows[replica]
        self._settle(row, "".join(self._finished(row, data) for data in row.close()))

    def tail(self, replica: str) -> tuple[str, ...]:
        """Return the last lines of a replica that hold text."""
        return tuple(self._rows[replica].tail)

    def _finished(self, row: _Row, data: bytes) -> str:
        """Return a line that is done, as text; empty if it stands there already."""
        text = shown(OutputLine(data).text, colour=False)
        if text.strip():
            row.tail.append(text)
        known, row.written = row.written, b""
        return "" if data and data == known else self._as_line(row, data)

    def _as_line(self, row: _Row, data: bytes) -> str:
        return f"{self._prefix(row)}{shown(OutputLine(data).text, colour=self._colour)}\n"

    def _prefix(self, row: _Row) -> str:
        return f"\x1b[{row.colour}m{row.prefix}{_RESET}" if self._colour else row.prefix

    def _settle(self, row: _Row, lines: str) -> None:
        """Write lines of a row, and have the last row of the terminal show what is unfinished."""
        if self._terminal:
            self._choose(row)
        if lines or (self._bar(self._last_row) if self._last_row is not None else "") != self._lit:
            self._put(lines)

    def _choose(self, row: _Row) -> None:
        """Choose the replica that has the last row: one with something to draw, and each long enough to be read."""
        drawn, now = self._last_row, self._clock()
        if drawn is None or not drawn.unfinished:
            others = (one for one in self._rows.values() if one.unfinished)
            self._last_row = row if row.unfinished else next(others, None)
        elif drawn is not row and row.unfinished and now - self._since >= _ROW_SECONDS:
            self._last_row = row
        if self._last_row is not drawn:
            self._since = now

    def _put(self, lines: str) -> None:
        """Write whole lines above the last row."""
        bar = self._bar(self._last_row) if self._last_row is not None else ""
        text = f"{_ERASE if self._lit else ''}{lines}{bar}"
        self._lit = bar
        if text:
            self._write(text)

    def _bar(self, row: _Row) -> str:
        text = shown(OutputLine(row.unfinished).text, colour=False).expandtabs()
        return self._prefix(row) + _fitting(text, self._width() - len(row.prefix) - 1)


class _Row:
    """One replica's unfinished line.

    Attributes:
        open: what was written since the last line end of any kind.
        drawn: what stands in the row and is drawn over by what comes.
        written: the state of a bar that has been written as a line, where there is no terminal.
    """

    def __init__(self, prefix: str, colour: int) -> None:
        self.prefix = prefix
        self.colour = colour
        self.open = self.drawn = self.written = b""
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._shown_at = float("-inf")

    @property
    def unfinished(self) -> bytes:
        return self.open or self.drawn

    def take(self, piece: OutputLine) -> Iterator[bytes]:
        """Add a piece; gives what is a whole line by it."""
        held = self.open + piece.data
        self.open = b""
        if piece.redrawn:
            # Only a step back leaves what stands there; blanks are how a bar is wiped away.
            self.drawn = held.rstrip() if held.strip(b"\x08") else self.drawn
        elif not piece.ended and len(held) < MAX_LINE_BYTES:
            self.open = held
        else:
            yield self._done(held)

    def close(self) -> Iterator[bytes]:
        """Yield the rest at the end of the output."""
        if self.unfinished:
            yield self._done(self.open)

    def is_due(self, now: float) -> bool:
        """Whether a bar has moved and was not written for a while."""
        return bool(self.drawn) and self.drawn != self.written and now - self._shown_at >= BAR_SECONDS

    def show(self, now: float) -> bytes:
        """Return the bar, to be written now."""
        self._shown_at, self.written = now, self.drawn
        return self.drawn

    def _done(self, held: bytes) -> bytes:
        whole = held or self.drawn
        self.open = self.drawn = b""
        return whole


def _fitting(text: str, columns: int) -> str:
    """Return the part of a text that fits: a row that wraps could not be erased."""
    used = 0
    for at, one in enumerate(text):
        used += 2 if unicodedata.east_asian_width(one) in "WF" else 1
        if used > columns:
            return text[:at]
    return text
