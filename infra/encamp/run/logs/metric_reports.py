"""Reports of a metric as cloudml-hypertune writes them: one JSON object a line (spec 7.4), wherever the line lies.

The library's file itself, lines of a replica's log, and a termination message all hold them. They are a trainer's own
text, so anything may stand there: what is no report is passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from encamp.tuning.model import Measurement

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Before a report in a replica's log.
MARK = "encamp-metric: "
#: Fields of every report beside the metric.
_OWN = frozenset({"checkpoint_path", "global_step", "timestamp", "trial"})
_LARGEST_STEP = 2**63 - 1
#: A longer line is no report.
LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class Report:
    """One line of reports.

    Attributes:
        measurement: of the metric that was asked for, None if it has none.
        others: tags of other metrics in it.
        unusable: what it says of the metric where that is no finite number, empty else.
    """

    measurement: Measurement | None
    others: frozenset[str] = frozenset()
    unusable: str = ""


def read_record(line: str, tag: str) -> Report | None:
    """Return a line as a report of the metric ``tag``, None if it is no report."""
    text = line.strip()
    if not text.startswith("{") or len(text) > LONGEST_LINE:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    others = frozenset(record) - _OWN - {tag}
    if tag not in record:
        return Report(None, others) if others else None
    value = _number(record[tag])
    if value is None:
        return Report(None, others, str(record[tag])[:40])
    return Report(Measurement(_step(record), value, _number(record.get("timestamp")) or 0.0), others)


def record_lines(text: str) -> list[str]:
    """Return the lines of a text that is the library's file, or the end of one; none if it is anything else."""
    *whole, rest = text.split("\n")
    # The end of a file may begin in the middle of a line.
    lines = whole if not whole or whole[0].startswith("{") else whole[1:]
    found = [line for line in lines if _is_record(line)]
    return found if found and len(found) == len(lines) and not rest else []


def _is_record(line: str) -> bool:
    """Whether a line has what every report has, and the bootstrap's message has not."""
    return line.startswith("{") and '"global_step": "' in line and '"timestamp": ' in line and line.endswith("}")


def _number(value: object) -> float | None:
    """Return a finite number, which the library writes as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def _step(record: Mapping[str, Any]) -> int:
    """Return the training step, 0 if it has none."""
    found = _number(record.get("global_step"))
    return int(found) if found is not None and abs(found) < _LARGEST_STEP else 0
