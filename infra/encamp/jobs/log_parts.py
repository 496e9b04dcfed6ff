"""Parts of a job's logs, replica by replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.run.history.log_view import LogPart
from encamp.run.history.sealed import chosen
from encamp.run.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from encamp.run.history.log_view import LogView, TimedLine


def log_part(tail: int | None, since: datetime | None) -> LogPart:
    """The last so many lines, and those since a time; all of them where neither is given."""
    return LogPart(micros(since) if since is not None else None, tail)


def parts_of(
    views: Sequence[LogView], replica: str | None, part: LogPart
) -> Iterator[tuple[LogView, Iterator[TimedLine]]]:
    """Each replica's log with the lines of a part of it; only the log of the replica that is named.

    Raises:
        UsageError: there is no such replica; names the nearest.
    """
    named = None if replica is None else chosen([view.log for view in views], replica).replica
    for view in views:
        if named in (None, view.log.replica):
            yield view, view.lines(part)
