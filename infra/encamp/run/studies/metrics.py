"""A trial's reports of the metric, both ways: cloudml-hypertune, and TensorFlow's summaries (spec 7.4).

The library's file lies within the replica. The bootstrap watches it and says what is new in the replica's log, so
whoever has the log has the metric, while the trial runs as well as afterwards; the last reports also stand in the
termination message. A replica without the bootstrap has the file itself as its termination message, and may write such
lines to its log. Everything is read again by whoever goes on with a study, with the same result.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.run.logs.metric_reports import LONGEST_LINE, MARK, read_record
from encamp.run.studies.event_folders import EventReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from encamp.run.studies.event_folders import EventFolder
    from encamp.tuning.model import Measurement

#: Number of a trial's measurements that are kept.
MOST_KEPT = 200
#: Number of measurements that are gathered before those in between are dropped.
_MOST_HELD = 20 * MOST_KEPT
#: Seconds between searches for event files.
_EVENT_SECONDS = 5.0
_READ_BYTES = 4 * 1024 * 1024
_MARK = MARK.encode()
#: Number of tags that a message names.
_MOST_NAMED = 5


class TrialMetrics:
    """All reports of a trial.

    Args:
        tag: of the metric.
        logs: of its replicas, as files that grow and need not be there yet.
        events: where its summaries lie, None where nowhere.
        clock: seconds that only grow.

    Attributes:
        since: when the trial began, in seconds since the epoch. Summaries that are older are of another job with the
            same job dir, or came with the checkpoint of another trial.
    """

    def __init__(
        self,
        tag: str,
        logs: Iterable[Path] = (),
        events: EventFolder | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tag = tag
        self._logs = [LogRecords(path) for path in logs]
        self._events = EventReader(events, tag) if events is not None else None
        self._clock = clock
        self._due = float("-inf")
        self.since = 0.0
        self._held: list[Measurement] = []
        self._known: set[Measurement] = set()
        self._others: set[str] = set()
        self._unusable = ""
        self._trouble = ""

    def read(self, *, last: bool = False) -> tuple[Measurement, ...]:
        """Return all measurements so far, by the time of their making; of very many, some in between are left out.

        ``last`` says that nothing more will be written, so that event files are looked at once more. What cannot be
        read is told by ``missing``, and tried again at the next reading.
        """
        for log in self._logs:
            self.add_lines(log.read())
        if self._events is not None and (last or self._clock() >= self._due):
            try:
                for measurement in self._events.read():
                    if measurement.at >= self.since:
                        self._held.append(measurement)
                self._trouble = ""
            except (EngineError, OSError) as error:
                self._trouble = str(error)
            self._due = self._clock() + _EVENT_SECONDS
        self._held.sort(key=lambda one: one.at)
        if len(self._held) > _MOST_HELD:
            self._held = list(thinned(self._held, _MOST_HELD // 2))
        return thinned(self._held)

    def add_lines(self, lines: Iterable[str]) -> None:
        """Take reports as the library writes them; one that is known already counts once."""
        for line in lines:
            report = read_record(line, self._tag)
            if report is None:
                continue
            self._others |= report.others if len(self._others) < _MOST_NAMED else set()
            self._unusable = report.unusable or self._unusable
            if report.measurement is not None and report.measurement not in self._known:
                self._known.add(report.measurement)
                self._held.append(report.measurement)

    def add_termination(self, termination: Mapping[str, Any]) -> None:
        """Take the reports of a replica's termination message (``Replica.termination``)."""
        found = termination.get("metrics")
        if isinstance(found, list):
            self.add_lines(str(line) for line in found)

    def missing(self) -> str:
        """Return the message for a trial that ended well and reported nothing: what was seen, and how to report."""
        said = f"it reported no metric {self._tag!r}"
        if self._unusable or (self._events is not None and self._events.unusable):
            said = f"it reported {self._unusable or 'nan'!r} as metric {self._tag!r}, which is no number"
        elif self._others:
            named = ", ".join(repr(tag) for tag in sorted(self._others)[:_MOST_NAMED])
            said += f", but {named}: hyperparameterMetricTag and the trainer must name the same"
        elif self._trouble:
            said += f", and its event files could not be read ({self._trouble})"
        return (
            f"{said}; report it with cloudml-hypertune, or as a TensorFlow summary of that tag below <jobDir>/<trial>/"
        )


class LogRecords:
    """Reports in the log of a replica, read on where it was left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[str]:
        """Return the reports of whole lines that have come."""
        found: list[str] = []
        try:
            size = self._path.stat().st_size
            if size < self._offset:  # replaced by one that is read anew
                self._offset = 0
            if size > self._offset:
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    while self._piece(file.read(_READ_BYTES), found):
                        file.seek(self._offset)
        except OSError:
            return found
        return found

    def _piece(self, piece: bytes, found: list[str]) -> bool:
        """Take the whole lines of a piece; False at the end."""
        end = piece.rfind(b"\n") + 1
        if not end:
            # A line so long is not waited for; what is left of it holds no report.
            self._offset += len(piece) if len(piece) == _READ_BYTES else 0
            return len(piece) == _READ_BYTES
        self._offset += end
        if _MARK in piece:
            lines = piece[:end].split(b"\n")
            marked = [line for line in lines if line.startswith(_MARK) and len(line) <= LONGEST_LINE]
            found.extend(line[len(_MARK) :].decode("utf-8", "replace") for line in marked)
        return True


def thinned(measurements: Sequence[Measurement], most: int = MOST_KEPT) -> tuple[Measurement, ...]:
    """Return at most so many measurements, evenly chosen, with the first, last, best and that of the largest step."""
    if len(measurements) <= most:
        return tuple(measurements)
    places = range(len(measurements))
    kept = {
        0,
        len(measurements) - 1,
        min(places, key=lambda at: measurements[at].value),
        max(places, key=lambda at: measurements[at].value),
        # The latest of that step is the one that counts.
        max(places, key=lambda at: (measurements[at].step, at)),
    }
    room = most - len(kept)
    kept.update(index * len(measurements) // room for index in range(room))
    return tuple(measurements[at] for at in sorted(kept))
