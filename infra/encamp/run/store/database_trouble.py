"""Errors of the record's database: its own message, if it cannot hold a secret, and what to do."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

#: PostgreSQL's code.
_DISK_FULL = "53100"
#: The part of an extended error code of SQLite's that says the kind (sqlite.org/rescode.html).
_PRIMARY = 0xFF
_ROOM = "make room there, and run the command again: what was on record stays, and what was refused was not begun"


def is_full(trouble: BaseException | None) -> bool:
    """Whether a database could not write because its disk is full; it has taken back whatever it had begun.

    Sources: sqlite.org/rescode.html (SQLITE_FULL); postgresql.org/docs/current/errcodes-appendix.html (disk_full).
    """
    while trouble is not None:
        if getattr(trouble, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
        if getattr(trouble, "sqlstate", None) == _DISK_FULL:
            return True
        trouble = getattr(trouble, "orig", None) or trouble.__cause__
    return False


def words(error: SQLAlchemyError) -> str:
    """Return SQLite's own message; of a server, whose message may hold an address, the kind of its error."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    kind = type(cause).__name__
    if isinstance(cause, sqlite3.Error) and str(cause):
        return f"{kind}: {cause}"
    return f"{kind}: its disk is full" if is_full(error) else kind


def advice(error: SQLAlchemyError, otherwise: str) -> str:
    """Return advice for an error; ``otherwise`` if nothing better is known."""
    if is_full(error):
        return _ROOM
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & _PRIMARY
    if code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
        return f"look whether its disk is full or cannot be written; {otherwise}"
    return otherwise
