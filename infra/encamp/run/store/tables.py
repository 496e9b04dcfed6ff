"""The record's tables: jobs that ever were, the journal of each, and who holds which job now."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from encamp.errors import EngineError, UsageError
from encamp.extras import install_line
from encamp.run.store.database_trouble import advice, words
from encamp.run.store.salvage import mend

if TYPE_CHECKING:
    from pathlib import Path

_LOG = logging.getLogger(__name__)
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

#: The leases of jobs. ``fence`` grows with every holder; a writer with an older one is refused.
LEASES = Table(
    "leases",
    METADATA,
    Column("job_id", String(128), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("expires", Float, nullable=False),
)

#: Jobs that were handed in to be begun by others, see ``submissions``. Whoever sets ``begun`` or ``ended`` where
#: neither was set decides what becomes of one. ``sequence`` is that of its first journal entry; times are seconds
#: since the epoch.
SUBMISSIONS = Table(
    "submissions",
    METADATA,
    Column("job_id", String(128), primary_key=True),
    Column("sequence", Integer, nullable=False),
    Column("environment", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Column("wait_until", Float),
    Column("creator", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    # The process that took it in, and when its client was told; 0 where that failed.
    Column("taken_by", Text, nullable=False),
    Column("answered", Float),
    # The claim of the process that begins it next, its time, and the driver once that has said who it is.
    Column("claimed", Float),
    Column("claimed_by", Text),
    Column("driver", Text),
    # Tries that came to nothing, what the last one said, and when the next may be.
    Column("tries", Integer, nullable=False),
    Column("trouble", Text),
    Column("not_before", Float),
    Column("begun", Float),
    # When nothing was left to do: nothing of it exists, or it was never begun.
    Column("ended", Float, index=True),
    # The job as it was sent, encrypted. The last column: columns behind a long text are slow to read.
    # In databases it keeps its first name, so that none needs a migration.
    Column("sealed", Text, key="encrypted", nullable=False),
)


#: Execution option of a connection that is about to write; see ``_begun``.
WRITES = "encamp_writes"


#: Number of engines of this process that have a file open; changed by one thread at a time.
_IN_USE: Counter[Path] = Counter()
_OPENING = threading.Lock()


def open_database(url: str | None, folder: Path) -> Engine:
    """Return the record's database, its tables made where they are missing.

    ``url`` is an SQLAlchemy URL; None means a file of its own in ``folder``, readable by its owner only. That file is
    mended where it was cut off (see ``salvage``).

    Raises:
        UsageError: the URL is malformed, or its driver is not installed.
        EngineError: the database cannot be opened.
    """
    engine = _engine(url) if url is not None else _file_engine(folder)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable)
        event.listen(engine, "begin", _begun)
    try:
        _make_tables(engine)
    except SQLAlchemyError as error:
        engine.dispose()
        raise EngineError(
            f"the job records cannot be opened: {words(error)}",
            where=shown(engine),
            hint=advice(error, "check the path or the server that ENCAMP_RECORD_URL names"),
        ) from error
    return engine


def _file_engine(folder: Path) -> Engine:
    with _OPENING:
        path = _own_file(folder)
        _IN_USE[path.absolute()] += 1
    engine = create_engine(f"sqlite:///{path}")

    def disposed(_: Engine) -> None:
        with _OPENING:
            _IN_USE[path.absolute()] -= 1

    event.listen(engine, "engine_disposed", disposed, once=True)
    return engine


def shown(engine: Engine) -> str:
    """Return a database's URL for messages: without its password, and without options, which may hold one too."""
    return engine.url.set(query={}).render_as_string(hide_password=True)


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        # A server may have closed a connection that was not used for a while.
        return create_engine(parsed, pool_pre_ping=True)
    except ImportError as error:
        raise UsageError(
            f"ENCAMP_RECORD_URL needs a driver that is not installed: {error.name}",
            hint=f"for PostgreSQL, `{install_line('postgres')}` and a URL that begins with postgresql+psycopg://",
        ) from error
    except (SQLAlchemyError, ValueError, TypeError) as error:
        # The URL itself may hold a password: neither it nor what the parser says of it is shown.
        raise UsageError(
            "ENCAMP_RECORD_URL is no usable database URL", hint="such as sqlite:////path/records"
        ) from error


def _own_file(folder: Path) -> Path:
    """Return the record's file, made where it is missing and mended where it was cut off.

    A file that this process has open is not looked at: closing it again would take the locks of the connections that
    are open from them (POSIX locks are a process's, not a descriptor's), and the next process to end would take its
    write-ahead log away. Source: sqlite.org/howtocorrupt.html, "Posix advisory locks".
    """
    path = folder / "records.sqlite3"
    if _IN_USE[path.absolute()]:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        aside = mend(path, _make_file)
    except OSError as error:
        raise EngineError(
            f"the job records cannot be opened: {error.strerror}",
            where=str(path),
            hint="ENCAMP_RECORD_URL names another place",
        ) from error
    if aside is not None:
        _LOG.warning("the job records were cut off; what could be read is kept, and the damaged file is %s", aside)
    return path


def _make_file(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    try:
        _make_tables(engine)
    finally:
        engine.dispose()


def _make_tables(engine: Engine) -> None:
    """Make what is missing; another driver may be doing the same."""
    wanted = set(METADATA.tables)
    if engine.dialect.name != "sqlite" and wanted <= set(inspect(engine).get_table_names()):
        return
    try:
        with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
            for table in METADATA.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))
    except (IntegrityError, ProgrammingError):
        # PostgreSQL lets two make the same table at once, and one of them fails for a name in its catalog.
        if not wanted <= set(inspect(engine).get_table_names()):
            raise


def _durable(connection: Any, record: Any) -> None:
    """Configure SQLite so that several drivers may write at once, and writes survive a power cut."""
    del record
    # Transactions begin where SQLAlchemy says so, not where the module guesses.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=30000")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begun(connection: Connection) -> None:
    """Begin a write transaction at once, since one that reads first and then writes may be refused.

    Source: sqlite.org/rescode.html, SQLITE_BUSY_SNAPSHOT.
    """
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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
