"""New entries of the journal since the last look, for caches of jobs that must never be stale.

Sequences of a file grow as entries are committed. A server gives them out before, so that a smaller one may appear
after a larger one: there the last minutes are read again, and what is known of them is dropped.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, Select, bindparam, case, func, or_, select

from encamp.run.store.journal import Entry, entry_of, time_of
from encamp.run.store.tables import JOBS, JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from encamp.run.store.transactions import Transactions

#: Longest time from the timestamp of a server transaction's entries to its commit.
LONGEST_TRANSACTION_SECONDS: Final = 120.0
#: Number of entries read in one statement, and the most characters of each: the content of a longer one is
#: not read, so that a statement brings a few megabytes at most.
_AT_ONCE: Final = 1000
LONGEST_READ: Final = 4096


@dataclass(frozen=True)
class Line:
    """An entry of the journal with its job.

    Attributes:
        entry: None if it is not whole, and where it was too long to be read.
        long: whether it was.
    """

    sequence: int
    job_id: str
    name: str
    created: datetime
    kind: str
    entry: Entry | None
    long: bool = False


class Changes:
    """A cursor over the journal from its beginning. Not for several threads at once.

    Args:
        kinds: kinds of entries that are wanted.
    """

    def __init__(self, transactions: Transactions, kinds: Collection[str]) -> None:
        self._transactions = transactions
        self._kinds = tuple(sorted(kinds))
        # Nothing is lost by the join: a job's row is written before its first entry, in the same transaction.
        size = func.length(JOURNAL.c.data)
        data = case((size <= LONGEST_READ, JOURNAL.c.data), else_=None).label("short")
        columns: list[Any] = [JOURNAL.c[name] for name in ("sequence", "job_id", "at", "kind", "digest")]
        columns += [data, size.label("size"), JOBS.c.name, JOBS.c.created]
        both: Any = select(*columns)
        both = both.join(JOBS, JOBS.c.job_id == JOURNAL.c.job_id)
        self._asked = both.where(JOURNAL.c.kind.in_(self._kinds)).order_by(JOURNAL.c.sequence)
        self._next = self._asked.where(JOURNAL.c.sequence > bindparam("last")).limit(bindparam("most"))
        self._watch = _Watch.of(transactions.database)
        self._ordered = transactions.database.dialect.name == "sqlite"
        self._mark: int | None = None
        self._last = 0
        #: Sequences of the last minutes that were taken.
        self._recent: set[int] = set()

    def quiet(self) -> bool:
        """Whether nothing at all was written to the database since the last ``take``; False where only that tells.

        Takes microseconds and waits for nobody; for any thread.
        """
        return self._watch is not None and self._mark is not None and self._watch.mark() == self._mark

    def take(self, apply: Callable[[list[Line]], None]) -> None:
        """Pass the new entries to ``apply``, by sequence.

        They count as taken once it returns.

        Raises:
            RecordError: the record cannot be read.
        """
        mark = self._watch.mark() if self._watch is not None else None
        look = self._take_ordered if self._ordered else self._take_served
        look(apply)
        self._mark = mark

    def close(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.close()

    def _take_ordered(self, apply: Callable[[list[Line]], None]) -> None:
        full = True
        while full:
            found = self._read(self._next, last=self._last, most=_AT_ONCE)
            apply(found)
            self._last = found[-1].sequence if found else self._last
            full = len(found) == _AT_ONCE

    def _take_served(self, apply: Callable[[list[Line]], None]) -> None:
        """Pass on new lines, each once; those passed to an ``apply`` that failed are still new."""
        seen, since = self._transactions.read(self._listed)
        new = sorted(seen.keys() - self._recent)
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            apply(self._read(self._asked.where(JOURNAL.c.sequence.in_(some))))
        self._last = max([self._last, *new[-1:]])
        self._recent = {sequence for sequence, at in seen.items() if at > since}

    def _listed(self, connection: Connection) -> tuple[dict[int, float], float]:
        """Return sequences that may be new with their times, and since when they have to be known."""
        since = self._transactions.now(connection) - LONGEST_TRANSACTION_SECONDS
        newer = or_(JOURNAL.c.sequence > self._last, JOURNAL.c.at > since)
        asked = select(JOURNAL.c.sequence, JOURNAL.c.at).where(JOURNAL.c.kind.in_(self._kinds), newer)
        return {row.sequence: row.at for row in connection.execute(asked)}, since

    def _read(self, asked: Select[Any], **which: int) -> list[Line]:
        return self._transactions.read(lambda connection: [_line(row) for row in connection.execute(asked, which)])


class _Watch:
    """A connection of its own to a file, that is asked whether others have written to it.

    Source: sqlite.org/pragma.html, data_version: it changes with every commit of another connection.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def of(cls, database: Engine) -> _Watch | None:
        """Return the watch of a database, None if it is no file."""
        if database.dialect.name != "sqlite" or database.url.database in {None, "", ":memory:"}:
            return None
        (place,), options = database.dialect.create_connect_args(database.url)
        uri = bool(options.get("uri", False))
        return cls(sqlite3.connect(place, check_same_thread=False, isolation_level=None, uri=uri))

    def mark(self) -> int | None:
        """Return a number that changes with every write; None if there is no way to tell."""
        with self._lock:
            try:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error:
                return None

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _line(row: Any) -> Line:
    long = row.size is not None and row.size > LONGEST_READ
    entry = None if long else entry_of(row.at, row.kind, row.short, row.digest)
    return Line(row.sequence, row.job_id, row.name, time_of(row.created), row.kind, entry, long=long)
