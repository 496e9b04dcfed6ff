"""Lines of the journal in the database: how one is added, and how a job's are read; inside others' transactions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, func, insert, select, update

from encamp.run.store.journal import Entry, digest, entry_of, fold, time_of
from encamp.run.store.tables import JOBS, JOURNAL, SUBMISSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.run.store.journal import RunRecord

#: Kind of the entry that says that it was proven that nothing of a job is left.
GONE = "gone"
#: A statement that is made once costs a fifth of one that is made with its values.
_ADDED = insert(JOURNAL)


def add(connection: Connection, at: float, job_id: str, kind: str, data: dict[str, Any]) -> int:
    """Add an entry, ``at`` in seconds since the epoch; its place in the journal."""
    # ASCII only: whatever a trainer or a tool said, every database and encoding takes it.
    text = json.dumps(data, sort_keys=True)
    added = connection.execute(
        _ADDED, {"job_id": job_id, "at": at, "kind": kind, "data": text, "digest": digest(kind, text)}
    )
    if kind == GONE:
        close(connection, at, job_id)
    (sequence,) = added.inserted_primary_key or (0,)
    return int(sequence)


def entries(connection: Connection, job_id: str, kind: str) -> Sequence[Entry | None]:
    """Return a job's entries of one kind in their order, None for one that is not whole."""
    lines = connection.execute(
        select(JOURNAL).where(JOURNAL.c.job_id == job_id, JOURNAL.c.kind == kind).order_by(JOURNAL.c.sequence)
    )
    return [entry_of(line.at, line.kind, line.data, line.digest) for line in lines]


def folded(connection: Connection, jobs: Select[Any], lines: Select[Any], which: dict[str, str]) -> list[RunRecord]:
    """Return records of the jobs that one statement selects, from journal lines that another selects in order."""
    rows = connection.execute(jobs, which).all()
    entries: dict[str, list[Entry | None]] = {row.job_id: [] for row in rows}
    for line in connection.execute(lines, which):
        if line.job_id in entries:
            entries[line.job_id].append(entry_of(line.at, line.kind, line.data, line.digest))
    return [fold(row.job_id, row.name, time_of(row.created), entries[row.job_id]) for row in rows]


def lock_job(connection: Connection, job_id: str) -> bool:
    """Lock a job until the end of the transaction; False if there is none such."""
    row = select(JOBS.c.job_id).where(JOBS.c.job_id == job_id).with_for_update()
    return connection.execute(row).first() is not None


def take(connection: Connection, at: float, job_id: str) -> bool:
    """Take a waiting job to begin it; False if it does not wait any more. At most one caller gets True."""
    begun = update(SUBMISSIONS).where(*_undecided(job_id)).values(begun=at)
    return connection.execute(begun).rowcount == 1


def drop(connection: Connection, at: float, job_id: str) -> bool:
    """End a job that waits, and forget what it was; False if it has been begun or has ended."""
    ended = update(SUBMISSIONS).where(*_undecided(job_id)).values(ended=at, encrypted="")
    return connection.execute(ended).rowcount == 1


def close(connection: Connection, at: float, job_id: str) -> None:
    """Note that nothing of a job is left; one that was not submitted needs no note."""
    connection.execute(
        update(SUBMISSIONS)
        .where(SUBMISSIONS.c.job_id == job_id, SUBMISSIONS.c.ended.is_(None))
        .values(ended=at, begun=func.coalesce(SUBMISSIONS.c.begun, at), encrypted="")
    )


def _undecided(job_id: str) -> tuple[Any, ...]:
    return SUBMISSIONS.c.job_id == job_id, SUBMISSIONS.c.begun.is_(None), SUBMISSIONS.c.ended.is_(None)
