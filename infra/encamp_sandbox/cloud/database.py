"""The one SQLite file of the sandbox's Google Cloud: resources, operations, policies, tokens, faults, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.database import Database

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    etag TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS resource_kinds ON resources (kind, name);
CREATE TABLE IF NOT EXISTS operations (
    name TEXT PRIMARY KEY, verb TEXT NOT NULL, target TEXT NOT NULL, began TEXT NOT NULL, ends REAL NOT NULL,
    detail TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS policies (
    resource TEXT PRIMARY KEY, bindings TEXT NOT NULL, etag TEXT NOT NULL, audit_configs TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY, principal TEXT NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token_scopes (
    digest TEXT PRIMARY KEY REFERENCES tokens (digest) ON DELETE CASCADE, scopes TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY, type TEXT NOT NULL, operation TEXT NOT NULL, kind TEXT NOT NULL,
    left INTEGER NOT NULL, name TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS strikes (
    id INTEGER PRIMARY KEY, fault INTEGER NOT NULL, at REAL NOT NULL, type TEXT NOT NULL, operation TEXT NOT NULL,
    name TEXT NOT NULL, agent TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS log_entries (
    id INTEGER PRIMARY KEY, log_name TEXT NOT NULL, timestamp TEXT NOT NULL, insert_id TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (log_name, timestamp, insert_id)
);
CREATE INDEX IF NOT EXISTS log_times ON log_entries (timestamp, insert_id);
"""


def open_database(path: Path) -> Database:
    """Return the file with all of its tables."""
    return Database(path, _SCHEMA)
