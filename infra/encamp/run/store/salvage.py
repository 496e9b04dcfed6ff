"""Repair of a truncated record file: its readable part goes into a new file, and the old one is kept beside it.

SQLite itself survives a write-ahead log that ends in the middle: what was not committed was never there. A database
file that is shorter than its header says, after a copy that was broken off or on a full disk, it calls malformed, all
of it. The journal is append-only, so what is lost is its end; what the cloud lists tells the rest.
"""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Offsets of SQLite's file header. Source: sqlite.org/fileformat.html, "The Database Header".
_MAGIC = b"SQLite format 3\x00"
_HEADER = 100
_PAGE_SIZE = slice(16, 18)
_PAGES = slice(28, 32)
_TABLES = ("jobs", "journal", "leases", "submissions")


def mend(path: Path, create: Any) -> Path | None:
    """Put a readable file in the place of one that was cut off.

    Args:
        path: the record's file; nothing is done where it is whole or empty.
        create: makes the tables in the file that it gets the path of.

    Returns:
        where the damaged file lies now, None if nothing was wrong.
    """
    if not _suspicious(path):
        return None
    with _alone(path):
        if not _suspicious(path) or _whole(path):
            return None
        rows = {table: _readable(path, table) for table in _TABLES}
        aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
        fresh = path.with_name(f"{path.name}.mended")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        create(fresh)
        _fill(fresh, rows)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(f"{path.name}{suffix}").rename(aside.with_name(f"{aside.name}{suffix}"))
        path.rename(aside)
        fresh.rename(path)
        return aside


def _suspicious(path: Path) -> bool:
    """Whether a file is shorter than its header says, or has none: cheap, because every command asks."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
        size = file.seek(0, 2)
    if size == 0:
        return False
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return True
    page = int.from_bytes(header[_PAGE_SIZE], "big")
    return size < int.from_bytes(header[_PAGES], "big") * (65_536 if page == 1 else page)


def _whole(path: Path) -> bool:
    """Whether SQLite itself finds nothing wrong: the write-ahead log may hold what the file lacks."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def _readable(path: Path, table: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return columns and rows of a table, read from both ends, each up to the first lost page."""
    found: dict[int, tuple[Any, ...]] = {}
    columns: tuple[str, ...] = ()
    for order in ("asc", "desc"):
        with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(path)) as connection:
            # Without it SQLite reads nothing of a file that is too short, not even what is there.
            connection.execute("PRAGMA writable_schema=ON")
            # The name is one of ours.
            rows = connection.execute(f"select rowid, * from {table} order by rowid {order}")  # noqa: S608
            columns = tuple(column[0] for column in rows.description[1:])
            for row in rows:
                found[row[0]] = row[1:]
    return columns, [found[number] for number in sorted(found)]


def _fill(path: Path, rows: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table, (columns, values) in rows.items():
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            if columns:
                connection.executemany(f"insert or ignore into {table} ({names}) values ({marks})", values)  # noqa: S608
        # A journal whose job's own line is lost is a job all the same.
        connection.execute(
            "insert or ignore into jobs (job_id, name, created)"
            " select job_id, coalesce(json_extract(data, '$.name'), job_id), at from journal"
            " where kind in ('intent', 'submitted') and json_valid(data)"
        )


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock by which one process at a time repairs a file."""
    with path.with_name(f"{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
