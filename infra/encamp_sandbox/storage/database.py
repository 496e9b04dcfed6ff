"""One SQLite file with every bucket, object and upload session of the storage server.

A row is written only after the bytes that it names lie on disk, and bytes are removed only after no row
names them; so a kill at any moment leaves at worst bytes that nobody names, which ``ObjectStore.sweep`` removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.database import Database

if TYPE_CHECKING:
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


def open_database(path: Path) -> Database:
    """Return the file with all of its tables."""
    return Database(path, _SCHEMA)
