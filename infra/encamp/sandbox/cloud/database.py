"""The one SQLite file of the sandbox's Google Cloud.

Every change is one transaction, taken with the write lock at once, so a kill leaves the state before it or
after it. Write-ahead logging with ``synchronous=NORMAL`` survives the death of the process (not of the machine).
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, labels TEXT NOT NULL,
    created TEXT NOT NULL, updated TEXT NOT NULL, etag TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS resource_kinds ON resources (kind, name);
CREATE TABLE IF NOT EXISTS policies (
    resource TEXT PRIMARY KEY, bindings TEXT NOT NULL, etag TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY, principal TEXT NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY, type TEXT NOT NULL, operation TEXT NOT NULL, kind TEXT NOT NULL,
    left INTEGER NOT NULL, name TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS log_entries (
    id INTEGER PRIMARY KEY, log_name TEXT NOT NULL, timestamp TEXT NOT NULL, insert_id TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (log_name, timestamp, insert_id)
);
CREATE INDEX IF NOT EXISTS log_times ON log_entries (timestamp, insert_id);
"""


class Database:
    """A connection, and transactions on it. For use by one thread."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(_SCHEMA)
        path.chmod(0o600)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; one inside another is part of the outer one."""
        if self._connection.in_transaction:
            yield self._connection
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def one(self, query: str, *values: object) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        return self._connection.execute(query, values).fetchone()

    def all(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Every row of a query."""
        return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
