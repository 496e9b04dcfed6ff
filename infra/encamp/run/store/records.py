"""The record of all jobs: an append-only journal, written before each action.

A job id is used once and never again. A lease keeps two drivers from holding one job; it carries a fence number, so
that a driver that lost its lease without noticing cannot write any more. Values are plain JSON without secrets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, Select, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from encamp.errors import EngineError, UsageError
from encamp.run.store import holder, journal_rows
from encamp.run.store.again import NameUsedError
from encamp.run.store.journal import (
    CANCEL,
    LABELS,
    POLICY,
    CancelRequest,
    Entry,
    RunRecord,
    first_request,
    last_state,
    state_data,
    time_of,
)
from encamp.run.store.states import FOLLOWING, State
from encamp.run.store.tables import JOBS, JOURNAL, LEASES, open_database
from encamp.run.store.transactions import RecordError, Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from pathlib import Path

__all__ = [
    "LEASE_SECONDS",
    "CancelRequest",
    "ChangedError",
    "Entry",
    "Hold",
    "Lease",
    "LeaseLostError",
    "RecordError",
    "Records",
    "RunRecord",
]

LEASE_SECONDS = 60.0


class LeaseLostError(EngineError):
    """Another driver has the job: its finder stops at once and takes nothing down."""

    def __init__(self, job_id: str) -> None:
        super().__init__("another driver has adopted this job", where=job_id)


class ChangedError(UsageError):
    """Somebody else has changed the value since it was read."""

    def __init__(self, job_id: str) -> None:
        super().__init__("somebody else has changed this job meanwhile", where=job_id, hint="read it again")


@dataclass(frozen=True)
class Hold:
    """The last holder of a job's lease, also after it has run out.

    Attributes:
        host: name of the holder's machine.
        place: what makes its process numbers comparable, see ``holder``.
        expires: seconds since the epoch when the lease runs out or ran out; 0 if it was given back.
    """

    host: str
    place: str
    expires: float


@dataclass(frozen=True)
class Lease:
    """The right to drive a job until ``expires``, unless renewed."""

    job_id: str
    holder: str
    fence: int


#: Jobs and lines of the journal: of every job, and of one. Made once: a statement costs more than what it reads.
_EVERY = select(JOBS).order_by(JOBS.c.created, JOBS.c.job_id), select(JOURNAL).order_by(JOURNAL.c.sequence)
_ONE = _EVERY[0].where(JOBS.c.job_id == bindparam("job")), _EVERY[1].where(JOURNAL.c.job_id == bindparam("job"))


class Records:
    """The journal of all jobs.

    Leases are judged by one clock: a PostgreSQL server's own, else that of the machine that asks. Machines that share
    another kind of database must agree about the time to within two thirds of ``LEASE_SECONDS``, since a driver renews
    its lease after one third. Where they do not, or where a driver was stopped for longer than its lease, the fence
    decides: whoever took the job over raised it, and nobody else can write any more.

    Args:
        database: with the record's tables.
        clock: seconds since the epoch.
    """

    def __init__(self, database: Engine, clock: Callable[[], float] = time.time) -> None:
        self.transactions = Transactions(database, clock)

    @classmethod
    def open(cls, url: str | None, folder: Path) -> Records:
        """Return the record at an SQLAlchemy URL, else in a file of ``folder``."""
        return cls(open_database(url, folder))

    def close(self) -> None:
        """Close every connection."""
        self.transactions.close()

    def now(self) -> float:
        """Return seconds since the epoch by the clock of leases: a machine's own may be wrong by a day."""
        return self.transactions.read(self.transactions.now)

    def begin(self, job_id: str, name: str, intent: dict[str, Any], *, submitted: bool = False) -> Lease:
        """Write down what will be created, before anything is, and hold the job.

        ``submitted``: it was handed in before, and waits. However many try, it is begun once.

        Raises:
            UsageError: the id was used before; says what became of that job.
        """

        def begun(connection: Connection) -> Lease | None:
            if not submitted:
                self._enter(connection, job_id, name, intent, None)
            elif journal_rows.take(connection, self.transactions.now(connection), job_id):
                self._append(connection, job_id, "intent", intent)
            else:
                return None
            return self._hold(connection, job_id)

        try:
            lease = self.transactions.write(begun)
        except IntegrityError as error:
            raise self._used(job_id, name) from error
        if lease is None:
            raise self._used(job_id, name)
        return lease

    def adopt(self, job_id: str, name: str, intent: dict[str, Any], since: datetime | None = None) -> Lease:
        """Hold a job that may have been started without a record (plain ``pulumi up``); ``since`` when, if known.

        Raises:
            UsageError: a living driver holds it, or another job has its cloud name.
        """

        def adopted(connection: Connection) -> Lease:
            if connection.execute(select(JOBS.c.job_id).where(JOBS.c.job_id == job_id)).first() is None:
                self._enter(connection, job_id, name, intent, since)
            return self._hold(connection, job_id)

        try:
            try:
                return self.transactions.write(adopted)
            except IntegrityError:
                # Somebody else entered it in the meantime; now it is there.
                return self.transactions.write(adopted)
        except IntegrityError as error:
            raise self._used(job_id, name) from error

    def renew(self, lease: Lease) -> bool:
        """Hold on for another while; False when another driver has taken the job."""

        def renewed(connection: Connection) -> bool:
            expires = self.transactions.now(connection) + LEASE_SECONDS
            return connection.execute(update(LEASES).where(*_is(lease)).values(expires=expires)).rowcount == 1

        return self.transactions.write(renewed)

    def release(self, lease: Lease) -> None:
        """Release the lease; another driver may take the job at once."""
        self.transactions.write(
            lambda connection: connection.execute(update(LEASES).where(*_is(lease)).values(expires=0.0))
        )

    def holds(self, lease: Lease) -> bool:
        """Whether nobody has taken the job since; unlike ``renew`` it writes nothing, so it may be asked often."""
        asked = select(LEASES.c.fence).where(*_is(lease))
        return self.transactions.read(lambda connection: connection.execute(asked).first()) is not None

    def append(self, lease: Lease, kind: str, data: dict[str, Any]) -> None:
        """Add an entry.

        Raises:
            LeaseLostError: another driver has the job, and this one must stop.
        """

        def appended(connection: Connection) -> None:
            _fence(connection, lease)
            self._append(connection, lease.job_id, kind, data)

        self.transactions.write(appended)

    def move(self, lease: Lease, state: State, at: datetime | None = None) -> None:
        """Enter a state, ``at`` where that was before now; one that cannot follow the present one is left out.

        Raises:
            LeaseLostError: another driver has the job, and this one must stop.
        """

        def moved(connection: Connection) -> None:
            _fence(connection, lease)
            if state in FOLLOWING[last_state(journal_rows.entries(connection, lease.job_id, "state"))]:
                self._append(connection, lease.job_id, "state", state_data(state, at))

        self.transactions.write(moved)

    def request_cancel(self, job_id: str, by: str) -> datetime:
        """Write down that ``by`` wants a job cancelled. Needs no lease: who holds the job looks for it.

        The first request counts; returns its time.

        Raises:
            UsageError: the id was never used.
        """

        def requested(connection: Connection) -> datetime:
            _lock(connection, job_id)
            first = first_request(journal_rows.entries(connection, job_id, CANCEL))
            return first.at if first is not None else self._append(connection, job_id, CANCEL, {"by": by})

        return self.transactions.write(requested)

    def set_labels(self, job_id: str, labels: dict[str, str], changes: int | None = None) -> int:
        """Replace a job's labels; returns how often they were changed, this time included.

        ``changes`` is how often they had been when they were read; None changes them whoever was faster.

        Raises:
            ChangedError: they have been changed since.
            UsageError: the id was never used.
        """
        return self._set(job_id, LABELS, {"labels": labels}, changes)

    def set_policy(self, job_id: str, policy: dict[str, Any], changes: int | None = None) -> int:
        """Replace a job's own IAM policy; ``changes``, answer and errors as of ``set_labels``."""
        return self._set(job_id, POLICY, {"policy": policy}, changes)

    def _set(self, job_id: str, kind: str, data: dict[str, Any], changes: int | None) -> int:
        def changed(connection: Connection) -> int:
            _lock(connection, job_id)
            # As ``fold`` counts: an incomplete entry was never there.
            before = sum(entry is not None for entry in journal_rows.entries(connection, job_id, kind))
            if changes not in {None, before}:
                raise ChangedError(job_id)
            self._append(connection, job_id, kind, data)
            return before + 1

        return self.transactions.write(changed)

    def cancel_requested(self, job_id: str) -> CancelRequest | None:
        """Return the first request to cancel a job, or None; one short query, made to be called often."""
        return self.transactions.read(
            lambda connection: first_request(journal_rows.entries(connection, job_id, CANCEL))
        )

    def record(self, job_id: str) -> RunRecord | None:
        """Return a job's record, or None if the id was never used."""
        found = self._records(job_id)
        return found[0] if found else None

    def records(self) -> list[RunRecord]:
        """Return every job's record, oldest first; two queries however many there are."""
        return self._records(None)

    def folded(self, job_ids: Sequence[str], kinds: Collection[str]) -> list[RunRecord]:
        """Return records of some jobs by entries of some kinds alone; ids that were never used are left out."""
        jobs = select(JOBS).where(JOBS.c.job_id.in_(job_ids))
        lines = select(JOURNAL).where(JOURNAL.c.job_id.in_(job_ids), JOURNAL.c.kind.in_(sorted(kinds)))
        return self._read(jobs, lines.order_by(JOURNAL.c.sequence), {})

    def _records(self, job_id: str | None) -> list[RunRecord]:
        jobs, lines = _EVERY if job_id is None else _ONE
        return self._read(jobs, lines, {} if job_id is None else {"job": job_id})

    def _read(self, jobs: Select[Any], lines: Select[Any], which: dict[str, str]) -> list[RunRecord]:
        return self.transactions.read(lambda connection: journal_rows.folded(connection, jobs, lines, which))

    def holder_of(self, job_id: str) -> str | None:
        """Return who drives a job now and since when, in words, or None."""
        return self._holders(job_id).get(job_id)

    def holders(self) -> dict[str, str]:
        """Return who drives which job now and since when, in words; jobs without a driver are left out."""
        return self._holders(None)

    def _holders(self, job_id: str | None) -> dict[str, str]:
        asked = select(LEASES) if job_id is None else select(LEASES).where(LEASES.c.job_id == job_id)

        def found(connection: Connection) -> dict[str, str]:
            now = self.transactions.now(connection)
            rows = [row for row in connection.execute(asked) if holder.alive(row.holder, row.expires, now)]
            return {row.job_id: _since(row) for row in rows}

        return self.transactions.read(found)

    def last_hold(self, job_id: str) -> Hold | None:
        """Return the last holder of a job's lease, None if there never was one."""
        asked = select(LEASES).where(LEASES.c.job_id == job_id)
        row = self.transactions.read(lambda connection: connection.execute(asked).first())
        if row is None:
            return None
        host, place = holder.host_and_place(row.holder)
        return Hold(host, place, float(row.expires))

    def _enter(self, connection: Connection, job: str, name: str, intent: dict[str, Any], at: datetime | None) -> None:
        now = self.transactions.now(connection)
        created = now if at is None else min(at.timestamp(), now)
        connection.execute(insert(JOBS).values(job_id=job, name=name, created=created))
        self._append(connection, job, "intent", intent)
        self._append(connection, job, "state", state_data(State.QUEUED, at))

    def _hold(self, connection: Connection, job_id: str) -> Lease:
        now = self.transactions.now(connection)
        row = connection.execute(select(LEASES).where(LEASES.c.job_id == job_id).with_for_update()).first()
        me = holder.myself()
        times = {"holder": me, "since": now, "expires": now + LEASE_SECONDS}
        if row is None:
            connection.execute(insert(LEASES).values(job_id=job_id, fence=1, **times))
            return Lease(job_id, me, 1)
        if holder.alive(row.holder, row.expires, now):
            raise UsageError(
                f"{holder.words(row.holder)} holds this job since {time_of(row.since):%Y-%m-%d %H:%M:%S} UTC",
                where=job_id,
                hint="wait for that driver, or end it first",
            )
        lease = Lease(job_id, me, row.fence + 1)
        connection.execute(update(LEASES).where(LEASES.c.job_id == job_id).values(fence=lease.fence, **times))
        return lease

    def _append(self, connection: Connection, job_id: str, kind: str, data: dict[str, Any]) -> datetime:
        at = self.transactions.now(connection)
        journal_rows.add(connection, at, job_id, kind, data)
        return time_of(at)

    def _used(self, job_id: str, name: str) -> UsageError:
        record = self.record(job_id)
        if record is None:
            return NameUsedError(job_id, name)
        held = self.holder_of(job_id)
        if held is not None:
            return UsageError(
                f"this job is running: {held}",
                where=job_id,
                hint=f"`encamp attach {job_id}` follows it; a new run needs another --job-id",
            )
        if record.waiting:
            return UsageError(
                "this job was submitted and waits for a free driver",
                where=job_id,
                hint=f"`encamp attach {job_id}` follows it; a new run needs another --job-id",
            )
        if not record.torn_down:
            return UsageError(
                f"this job was started before and is {record.state}; its driver is gone",
                where=job_id,
                hint="run `encamp reap` to bring it to its end; a new run needs another --job-id",
            )
        return UsageError(
            f"this job has ended: {record.state}; a job id is never used again",
            where=job_id,
            hint="choose another --job-id",
        )


def _is(lease: Lease) -> tuple[Any, Any]:
    """Return the row of a lease that nobody has taken since."""
    return LEASES.c.job_id == lease.job_id, LEASES.c.fence == lease.fence


def _fence(connection: Connection, lease: Lease) -> None:
    """Lock the lease's row until the end of the transaction, so that nobody takes the job between read and write."""
    if connection.execute(select(LEASES.c.fence).where(*_is(lease)).with_for_update()).first() is None:
        raise LeaseLostError(lease.job_id)


def _lock(connection: Connection, job_id: str) -> None:
    """Keep others from changing a job until the end of the transaction."""
    if not journal_rows.lock_job(connection, job_id):
        raise UsageError("no such job in the record", where=job_id, hint="`encamp list` names every job")


def _since(row: Any) -> str:
    return f"{holder.words(row.holder)} since {time_of(row.since):%Y-%m-%d %H:%M:%S} UTC"
