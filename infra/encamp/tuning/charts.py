"""Charts of a study as shapes with places, which the report's template draws: it has no arithmetic of its own."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.spec.tuning import Goal
from encamp.tuning.axes import number_axis, number_text, parameter_axis, short
from encamp.tuning.best import better, loss_of
from encamp.tuning.model import TrialState, arguments_of
from encamp.tuning.shapes import LEFT, TOP, Bar, Canvas, Chart, Dot, Frame, Label, Line, point

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.study import ParameterPlan, StudyPlan
    from encamp.tuning.axes import Axis
    from encamp.tuning.model import Trial

_WIDTH, _HEIGHT = 920, 300
_SLICE_WIDTH, _SLICE_HEIGHT = 300, 220
_AXIS_WIDTH = 130
_BAR_HEIGHT, _BAR_LEFT = 26, 190
#: Points of a learning curve at most.
_CURVE_POINTS = 200
#: Worst and best of the colours between which trials are shaded by their rank: red, green, blue.
_WORST, _BEST = (198, 219, 239), (8, 48, 107)
#: Distance from the third quartile, in interquartile ranges, from which a trial is drawn at the edge.
_FAR = 3.0
_ENOUGH_FOR_QUARTILES = 4
#: A margin beyond it would be no number any more.
_LARGEST = 1.7e308


@dataclass(frozen=True)
class Scored:
    """The trials of a study that succeeded with a finite metric, and how each is drawn.

    Attributes:
        trials: best first.
        low: smallest value that the axes show.
        high: largest one.
        tips: of each trial by number, what the pointer is told.
        colours: of each trial by number.
    """

    study: StudyPlan
    trials: tuple[Trial, ...]
    low: float
    high: float
    tips: Mapping[int, str]
    colours: Mapping[int, str]

    @property
    def beyond(self) -> int:
        """The number of trials that are so much worse than most that they are drawn at the edge."""
        return sum(1 for one in self.trials if not self.low <= _value(one) <= self.high)

    @property
    def axis(self) -> Axis:
        """The axis of the metric."""
        return number_axis(self.study.metric, self.low, self.high)


def scored(study: StudyPlan, best_first: Sequence[Trial]) -> Scored:
    """Return the part of a study that can be drawn."""
    shown = tuple(one for one in best_first if loss_of(study, one) is not None)
    low, high = _limits(study, [_value(one) for one in shown])
    last = max(len(shown) - 1, 1)
    return Scored(
        study,
        shown,
        low,
        high,
        {one.number: _tip(study, one) for one in shown},
        {one.number: _shade(1 - rank / last) for rank, one in enumerate(shown)},
    )


def history(found: Scored, trials: Sequence[Trial]) -> Chart:
    """Return the metric of each trial in the order of their beginning, the best so far as steps.

    Failed ones at the foot.
    """
    frame = Frame(_WIDTH, _HEIGHT)
    count = max((one.number for one in trials), default=1)
    across = number_axis("trial", 1, max(count, 2), whole=True)
    canvas = Canvas()
    frame.draw(canvas, across, found.axis)
    best: float | None = None
    steps: list[str] = []
    for one in sorted(found.trials, key=lambda trial: trial.number):
        x = frame.x(across.place(one.number) or 0.0)
        if best is not None:
            steps.append(point(x, frame.y(found.axis.place(best) or 0.0)))
        best = _value(one) if best is None or better(found.study, _value(one), best) else best
        steps.append(point(x, frame.y(found.axis.place(best) or 0.0)))
        canvas.dots.append(_dot(found, one, x, frame.y(found.axis.place(_value(one)) or 0.0)))
    canvas.lines.append(Line(" ".join(steps), "best"))
    for one in trials:
        if one.state is TrialState.FAILED:
            canvas.dots.append(
                Dot(frame.x(across.place(one.number) or 0.0), frame.y(0), "failed", tip=_tip(found.study, one))
            )
    return canvas.chart("History", _WIDTH, _HEIGHT)


def curves(found: Scored) -> Chart:
    """Return the metric of each trial over its training steps."""
    frame = Frame(_WIDTH, _HEIGHT)
    told = [(one, [each for each in one.measurements if math.isfinite(each.value)]) for one in found.trials]
    steps = [each.step for _, measured in told for each in measured]
    first = min(steps, default=0)
    across = number_axis("training step", first, max(*steps, first + 1), whole=True)
    up = found.axis
    canvas = Canvas()
    frame.draw(canvas, across, up)
    for one, measured in reversed(told):
        every = math.ceil(len(measured) / _CURVE_POINTS) or 1
        # From the last one backwards: how a trial ended is always drawn.
        points = [(across.place(each.step), up.place(each.value)) for each in measured[::-1][::every][::-1]]
        drawn = " ".join(point(frame.x(x or 0.0), frame.y(y or 0.0)) for x, y in points)
        canvas.lines.append(Line(drawn, "trial", found.colours[one.number], found.tips[one.number]))
    return canvas.chart("Learning curves", _WIDTH, _HEIGHT)


def parallel_coordinates(found: Scored) -> Chart:
    """Return a line for each trial through its values and its metric, the best ones darkest."""
    axes = [*(parameter_axis(one) for one in found.study.parameters), found.axis]
    width = max(_WIDTH, LEFT + _AXIS_WIDTH * len(axes))
    frame = Frame(width, _HEIGHT)
    places = [frame.x(index / (len(axes) - 1)) for index in range(len(axes))]
    # The labels beside the last axis need room.
    places = [LEFT + (place - LEFT) * (1 - _AXIS_WIDTH / 2 / width) for place in places]
    canvas = Canvas()
    for x, axis in zip(places, axes, strict=True):
        canvas.lines.append(Line(f"{point(x, frame.y(0))} {point(x, frame.y(1))}", "axis"))
        canvas.labels.append(Label(x, _HEIGHT - 8, short(axis.title), "middle title"))
        canvas.labels += [Label(x + 6, frame.y(tick.place) + 4, tick.text, "start halo") for tick in axis.ticks]
    for one in reversed(found.trials):
        values = [*(one.values.get(parameter.name) for parameter in found.study.parameters), _value(one)]
        rows = [axis.place(value) if value is not None else None for axis, value in zip(axes, values, strict=True)]
        drawn = " ".join(point(x, frame.y(row)) for x, row in zip(places, rows, strict=True) if row is not None)
        canvas.lines.append(Line(drawn, "trial", found.colours[one.number], found.tips[one.number]))
    return canvas.chart("Parallel coordinates", width, _HEIGHT)


def slices(found: Scored) -> tuple[Chart, ...]:
    """Return a chart for each parameter: the metric over its values."""
    return tuple(_slice(found, parameter) for parameter in found.study.parameters)


def importance(shares: Mapping[str, float]) -> Chart:
    """Return bars of shares from 0 to 1, the largest first."""
    canvas = Canvas()
    room = _WIDTH - _BAR_LEFT - 70
    for row, (name, share) in enumerate(sorted(shares.items(), key=lambda one: -one[1])):
        y, length = TOP + row * _BAR_HEIGHT, max(room * share, 1.0)
        text = f"{share:.0%}"
        canvas.bars.append(Bar(_BAR_LEFT, y, length, _BAR_HEIGHT - 8, f"{name}: {text}"))
        canvas.labels.append(Label(_BAR_LEFT - 8, y + 14, short(name), "end"))
        canvas.labels.append(Label(_BAR_LEFT + length + 6, y + 14, text, "start"))
    return canvas.chart("Importance", _WIDTH, 2 * TOP + _BAR_HEIGHT * len(shares))


def _slice(found: Scored, parameter: ParameterPlan) -> Chart:
    frame = Frame(_SLICE_WIDTH, _SLICE_HEIGHT)
    across = parameter_axis(parameter)
    canvas = Canvas()
    frame.draw(canvas, across, found.axis)
    for one in reversed(found.trials):
        value = one.values.get(parameter.name)
        place = across.place(value) if value is not None else None
        if place is not None:
            canvas.dots.append(_dot(found, one, frame.x(place), frame.y(found.axis.place(_value(one)) or 0.0)))
    return canvas.chart(parameter.name, _SLICE_WIDTH, _SLICE_HEIGHT)


def _dot(found: Scored, trial: Trial, x: float, y: float) -> Dot:
    kind = "stopped" if trial.stopped_early else "trial"
    return Dot(x, y, kind, found.colours[trial.number], found.tips[trial.number])


def _limits(study: StudyPlan, values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and largest value to show.

    All, but those that are far worse than most would press the rest together.
    """
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if len(values) >= _ENOUGH_FOR_QUARTILES:
        first, _, third = statistics.quantiles(values, n=4, method="inclusive")
        far = _FAR * (third - first)
        if study.goal is Goal.MINIMIZE:
            high = min(high, third + far) if far > 0 else high
        else:
            low = max(low, first - far) if far > 0 else low
    margin = (high / 2 - low / 2) / 10 or abs(low) / 20 or 0.5
    return max(low - margin, -_LARGEST), min(high + margin, _LARGEST)


def _value(trial: Trial) -> float:
    return trial.final.value if trial.final is not None else math.nan


def _tip(study: StudyPlan, trial: Trial) -> str:
    """Return a trial in words."""
    metric = (
        f"{number_text(trial.final.value)} at step {trial.final.step}" if trial.final is not None else trial.message
    )
    stopped = ", stopped early" if trial.stopped_early else ""
    values = ", ".join(f"{name}={text}" for name, text in arguments_of(study, trial).items())
    return f"trial {trial.number}: {metric or trial.state.lower()}{stopped} ({values})"


def _shade(share: float) -> str:
    """Return a colour between the worst and the best."""
    mixed = (round(worst + share * (best - worst)) for worst, best in zip(_WORST, _BEST, strict=True))
    return "#" + "".join(f"{one:02x}" for one in mixed)
