"""The SQLite files in which servers of the sandbox keep their state.

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


class Database:
    """A connection, and transactions on it. For use by one thread.

    Args:
        path: the file, made where it is missing.
        schema: SQL that makes what is missing in it.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(schema)
        path.chmod(0o600)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction; one inside another is part of the outer one."""
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
        """Return the first row of a query, or None."""
        return self._connection.execute(query, values).fetchone()

    def all(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return every row of a query."""
        return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
