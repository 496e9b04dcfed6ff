"""Shapes of charts with places in pixels, and the frame between two axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.tuning.axes import short

if TYPE_CHECKING:
    from encamp.tuning.axes import Axis

#: Margins of a chart.
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 14, 40
#: About the width of a letter, and how few stand for a word at least.
_LETTER, _FEWEST_LETTERS, _ANY = 7.0, 4, 1000


@dataclass(frozen=True)
class Line:
    """A line through points ``x,y x,y ...``; ``tip`` is shown where the pointer rests."""

    points: str
    kind: str
    colour: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Dot:
    """A filled or, where ``kind`` says so, hollow dot."""

    x: float
    y: float
    kind: str
    colour: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Bar:
    """A horizontal bar from its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    tip: str = ""


@dataclass(frozen=True)
class Label:
    """A text; ``kind`` says which end of it is at the place."""

    x: float
    y: float
    text: str
    kind: str = "middle"


@dataclass(frozen=True)
class Chart:
    """A chart and everything in it, in the order of drawing: bars, lines, dots, labels."""

    title: str
    width: int
    height: int
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    dots: tuple[Dot, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass
class Canvas:
    """A chart that is being drawn."""

    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def chart(self, title: str, width: int, height: int) -> Chart:
        """Return the chart of all drawn shapes."""
        return Chart(title, width, height, tuple(self.bars), tuple(self.lines), tuple(self.dots), tuple(self.labels))


@dataclass(frozen=True)
class Frame:
    """The room of a chart between its axes, in pixels."""

    width: int
    height: int

    def x(self, place: float) -> float:
        """Return the pixel of a place from 0 at the left to 1 at the right."""
        return round(LEFT + place * (self.width - LEFT - RIGHT), 1)

    def y(self, place: float) -> float:
        """Return the pixel of a place from 0 at the foot to 1 at the head."""
        return round(self.height - BOTTOM - place * (self.height - TOP - BOTTOM), 1)

    def draw(self, canvas: Canvas, across: Axis, up: Axis) -> None:
        """Draw both axes with their labels; the page says the vertical axis' title."""
        for tick in up.ticks:
            y = self.y(tick.place)
            canvas.lines.append(Line(f"{point(self.x(0), y)} {point(self.x(1), y)}", "grid"))
            canvas.labels.append(Label(self.x(0) - 6, y + 4, tick.text, "end"))
        canvas.lines.append(Line(f"{point(self.x(0), self.y(0))} {point(self.x(1), self.y(0))}", "axis"))
        self._write_below(canvas, across)
        canvas.labels.append(Label(self.x(0.5), self.height - 6, across.title, "middle title"))

    def _write_below(self, canvas: Canvas, across: Axis) -> None:
        """Write the horizontal axis' values, but those that would overlap."""
        room = int((self.x(1) - self.x(0)) / max(len(across.ticks), 1) / _LETTER) if across.words else _ANY
        reached = -math.inf
        for tick in across.ticks:
            text = short(tick.text, max(room, _FEWEST_LETTERS))
            x, half = self.x(tick.place), _LETTER * len(text) / 2
            if x - half > reached:
                canvas.labels.append(Label(x, self.y(0) + 16, text))
                reached = x + half


def point(x: float, y: float) -> str:
    """Return a point of a line."""
    return f"{x:.1f},{y:.1f}"
