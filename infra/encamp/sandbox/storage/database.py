"""One SQLite file with every bucket, object and upload session of the storage server.

A row is written only after the bytes that it names lie on disk, and bytes are removed only after no row
names them; so a kill at any moment leaves at worst bytes that nobody names, which ``ObjectStore.sweep`` removes.
Write-ahead logging with ``synchronous=NORMAL`` survives the death of the process (not of the machine).
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS buckets (
    name TEXT PRIMARY KEY, body TEXT NOT NULL, metageneration INTEGER NOT NULL,
    created TEXT NOT NULL, updated TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    bucket TEXT NOT NULL REFERENCES buckets(name), name TEXT NOT NULL, generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL, live INTEGER NOT NULL, size INTEGER NOT NULL, md5 TEXT, crc32c TEXT NOT NULL,
    blob TEXT NOT NULL, body TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL, deleted TEXT,
    PRIMARY KEY (bucket, name, generation)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS live_objects ON objects (bucket, name) WHERE live = 1;
CREATE INDEX IF NOT EXISTS object_blobs ON objects (blob);
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, query TEXT NOT NULL,
    created REAL NOT NULL, result TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), generation INTEGER NOT NULL);
INSERT OR IGNORE INTO clock VALUES (1, 0);
"""


class Database:
    """A connection, and transactions on it. For use by one thread."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(_SCHEMA)
        path.chmod(0o600)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, with the write lock taken at once."""
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
