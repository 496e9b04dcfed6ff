"""Reading and writing the record: whole transactions, tried again where a server was away for a moment.

Nothing of a database URL gets into a message but its form with the password hidden.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from encamp.errors import EngineError
from encamp.retries import RetryPolicy, TransientError, with_retries
from encamp.run.store.database_trouble import advice, words
from encamp.run.store.tables import WRITES, shown

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
#: Policy for a server's broken connection: a managed one is back from a fail-over within a minute or a little more.
_POLICY = RetryPolicy(attempts=20, first_pause=0.2, longest_pause=8.0, total=120.0)


class RecordError(EngineError):
    """The record of jobs cannot be read or written."""

    def __init__(self, database: Engine, error: SQLAlchemyError) -> None:
        usual = "check the file or the server; a file that was cut off is mended when a command opens it anew"
        super().__init__(
            f"the job records cannot be used: {words(error)}", where=shown(database), hint=advice(error, usual)
        )


class Transactions:
    """The transactions of one database.

    Args:
        clock: seconds since the epoch; a database server's own clock is used in its place where there is one.
    """

    def __init__(self, database: Engine, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._served = database.dialect.name == "postgresql" and clock is time.time
        # A file has one writer at a time, and SQLite lets the others look again and again, longer each time: of many
        # threads some would wait for seconds. Here they wait for each other before that.
        self._turn = threading.Lock() if database.dialect.name == "sqlite" else contextlib.nullcontext()

    @property
    def database(self) -> Engine:
        """The database itself."""
        return self._database

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what ``work`` reads.

        Raises:
            RecordError: the database cannot be read.
        """
        return self._tried(lambda: self._read(work))

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """Do all of ``work`` or nothing; it is retried if a server's connection broke.

        Raises:
            IntegrityError: something is there already.
            RecordError: the database cannot be written.
        """
        return self._tried(lambda: self._write(work))

    def now(self, connection: Connection) -> float:
        """Return seconds since the epoch.

        By the server's clock where one serves all machines, else by this machine's.
        """
        if not self._served:
            return self._clock()
        return float(connection.execute(text("select extract(epoch from clock_timestamp())")).scalar_one())

    def close(self) -> None:
        """Close every connection."""
        self._database.dispose()

    def _read(self, work: Callable[[Connection], _T]) -> _T:
        with self._database.connect() as connection:
            return work(connection)

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        with self._turn, self._database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
            return work(connection)

    def _tried(self, work: Callable[[], _T]) -> _T:
        def once() -> _T:
            try:
                return work()
            except IntegrityError:
                raise
            except SQLAlchemyError as error:
                trouble = RecordError(self._database, error)
                if isinstance(error, DBAPIError) and self._away(error):
                    raise TransientError(trouble) from error
                raise trouble from error

        return with_retries(once, _POLICY)

    def _away(self, error: DBAPIError) -> bool:
        """Whether a server may be back in a moment; a file is not, and waits for its writers by itself."""
        return self._database.dialect.name != "sqlite" and (
            error.connection_invalidated or type(error).__name__ == "OperationalError"
        )
