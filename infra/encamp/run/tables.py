"""The record's tables: jobs that ever were, the journal of each, and who holds which job now."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Engine, Float, Integer, MetaData, String, Table, Text, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from encamp.errors import EngineError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

METADATA = MetaData()

#: One row for each job id that was ever used: ids are unique for ever.
JOBS = Table(
    "jobs",
    METADATA,
    Column("job_id", String(128), primary_key=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("created", Float, nullable=False),
)

#: Append-only. ``digest`` tells a whole entry from one that was written in part or changed.
JOURNAL = Table(
    "journal",
    METADATA,
    Column("sequence", Integer, primary_key=True, autoincrement=True),
    Column("job_id", String(128), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)

#: Who drives a job. ``fence`` grows with every holder; a writer with an older one is refused.
LEASES = Table(
    "leases",
    METADATA,
    Column("job_id", String(128), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("expires", Float, nullable=False),
)


def open_database(url: str | None, folder: Path) -> Engine:
    """The record's database, its tables made where they are missing.

    ``url`` is an SQLAlchemy URL; None means a file of its own in ``folder``, readable by its owner only.

    Raises:
        UsageError: the URL is none.
        EngineError: the database cannot be opened.
    """
    if url is None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "records.sqlite3"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        url = f"sqlite:///{path}"
    try:
        engine = create_engine(make_url(url))
    except (ArgumentError, SQLAlchemyError, ImportError) as error:
        raise UsageError(
            "ENCAMP_RECORD_URL is no usable database URL", hint="such as sqlite:////path/records"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable)
    try:
        _make_tables(engine)
    except SQLAlchemyError as error:
        raise EngineError(
            f"the job records cannot be opened: {type(error).__name__}",
            where=engine.url.render_as_string(hide_password=True),
            hint="check the path or the server that ENCAMP_RECORD_URL names",
        ) from error
    return engine


def _make_tables(engine: Engine) -> None:
    """Make what is missing; another driver may be doing the same."""
    with engine.begin() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))


def _durable(connection: Any, record: Any) -> None:
    """Several drivers may write at once, and what is written survives a power cut."""
    del record
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=30000")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    """Change the journal's mode. SQLite does not wait by itself for another that does the same to a new file."""
    for pause in (0.05,) * 100:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            time.sleep(pause)
        else:
            return
    cursor.execute("PRAGMA journal_mode=WAL")
