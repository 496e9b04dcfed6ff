"""What happened to every job: an append-only journal, written before the thing itself is done.

A job id is used once and never again. A lease keeps two drivers from holding one job; it carries a fence number,
so that a driver that lost its lease without noticing cannot write any more. Values are plain JSON without secrets.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from encamp.errors import EngineError, UsageError
from encamp.run import holder
from encamp.run.states import FOLLOWING, Outcome, State
from encamp.run.tables import JOBS, JOURNAL, LEASES, open_database

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEASE_SECONDS = 60.0
_CANCEL = "cancel"


@dataclass(frozen=True)
class Entry:
    """One line of a job's journal."""

    at: datetime
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class CancelRequest:
    """Somebody wants a job cancelled: when it was first asked for, and by whom."""

    at: datetime
    by: str


@dataclass(frozen=True)
class RunRecord:
    """A job as its journal tells it.

    Attributes:
        intent: what was to be created, under which labels, where, until when; None where it was adopted without.
        times: when each state began.
        outcome: how the training ended, known before tear-down begins.
        torn_down: whether it was proven that nothing is left.
        cancel: the first request to cancel it, None where nobody asked.
        damaged: journal entries that could not be read and were left out.
    """

    job_id: str
    name: str
    created: datetime
    state: State
    times: dict[State, datetime] = field(default_factory=dict)
    intent: dict[str, Any] | None = None
    outcome: Outcome | None = None
    receipt: dict[str, Any] | None = None
    torn_down: bool = False
    cancel: CancelRequest | None = None
    entries: tuple[Entry, ...] = ()
    damaged: int = 0


class LeaseLostError(EngineError):
    """Whoever finds this stops at once and takes nothing down: another driver has the job."""

    def __init__(self, job_id: str) -> None:
        super().__init__("another driver has taken this job over", where=job_id)


@dataclass(frozen=True)
class Hold:
    """Who held a job last, also where the lease has run out.

    Attributes:
        host: name of the holder's machine.
        place: what makes its process numbers comparable, see ``holder``.
        expires: seconds since the epoch when the lease runs out or ran out; 0 where it was given back.
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


class Records:
    """The journal of all jobs.

    Args:
        database: with the record's tables.
        clock: seconds since the epoch.
    """

    def __init__(self, database: Engine, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    @classmethod
    def open(cls, url: str | None, folder: Path) -> Records:
        """The record at an SQLAlchemy URL, else in a file of ``folder``."""
        return cls(open_database(url, folder))

    def close(self) -> None:
        """Close every connection."""
        self._database.dispose()

    def begin(self, job_id: str, name: str, intent: dict[str, Any]) -> Lease:
        """Write down what will be created, before anything is, and hold the job.

        Raises:
            UsageError: the id was used before; says what became of that job.
        """
        now = self._clock()
        try:
            with self._database.begin() as connection:
                connection.execute(insert(JOBS).values(job_id=job_id, name=name, created=now))
                lease = self._hold(connection, job_id, now)
                self._append(connection, job_id, "intent", intent)
                self._append(connection, job_id, "state", {"state": str(State.QUEUED)})
        except IntegrityError as error:
            raise self._used(job_id, name) from error
        return lease

    def adopt(self, job_id: str, name: str, intent: dict[str, Any]) -> Lease:
        """Hold a job that may have been started without a record (plain ``pulumi up``).

        Raises:
            UsageError: a living driver holds it.
        """
        with self._database.begin() as connection:
            now = self._clock()
            if connection.execute(select(JOBS.c.job_id).where(JOBS.c.job_id == job_id)).first() is None:
                connection.execute(insert(JOBS).values(job_id=job_id, name=name, created=now))
                self._append(connection, job_id, "intent", intent)
                self._append(connection, job_id, "state", {"state": str(State.QUEUED)})
            return self._hold(connection, job_id, now)

    def renew(self, lease: Lease) -> bool:
        """Hold on for another while; False when another driver has taken the job."""
        with self._database.begin() as connection:
            changed = connection.execute(
                update(LEASES)
                .where(LEASES.c.job_id == lease.job_id, LEASES.c.fence == lease.fence)
                .values(expires=self._clock() + LEASE_SECONDS)
            )
            return changed.rowcount == 1

    def release(self, lease: Lease) -> None:
        """Let go; another driver may take the job at once."""
        with self._database.begin() as connection:
            connection.execute(
                update(LEASES).where(LEASES.c.job_id == lease.job_id, LEASES.c.fence == lease.fence).values(expires=0.0)
            )

    def holds(self, lease: Lease) -> bool:
        """Whether nobody has taken the job since; unlike ``renew`` it writes nothing, so it may be asked often."""
        with self._database.connect() as connection:
            row = connection.execute(select(LEASES.c.fence).where(LEASES.c.job_id == lease.job_id)).first()
        return row is not None and row.fence == lease.fence

    def append(self, lease: Lease, kind: str, data: dict[str, Any]) -> None:
        """Add an entry.

        Raises:
            LeaseLostError: another driver has the job, and this one must stop.
        """
        with self._database.begin() as connection:
            row = connection.execute(select(LEASES.c.fence).where(LEASES.c.job_id == lease.job_id)).first()
            if row is None or row.fence != lease.fence:
                raise LeaseLostError(lease.job_id)
            self._append(connection, lease.job_id, kind, data)

    def move(self, lease: Lease, state: State) -> None:
        """Enter a state; one that cannot follow the present one is left out, so that an ended job stays ended."""
        record = self.record(lease.job_id)
        if record is not None and state in FOLLOWING[record.state]:
            self.append(lease, "state", {"state": str(state)})

    def request_cancel(self, job_id: str, by: str) -> datetime:
        """Write down that ``by`` wants a job cancelled. Needs no lease: who holds the job looks for it.

        The first request counts; returns its time.

        Raises:
            UsageError: the id was never used.
        """
        with self._database.begin() as connection:
            if connection.execute(select(JOBS.c.job_id).where(JOBS.c.job_id == job_id)).first() is None:
                raise UsageError("no such job in the record", where=job_id, hint="`encamp list` names every job")
            if _first_request(connection, job_id) is None:
                self._append(connection, job_id, _CANCEL, {"by": by})
            # Of two that came at once both are written, and the journal's order decides.
            first = _first_request(connection, job_id)
        return first.at if first is not None else _time(self._clock())

    def cancel_requested(self, job_id: str) -> CancelRequest | None:
        """The first request to cancel a job, None where nobody asked. One short query: made to be asked often."""
        with self._database.connect() as connection:
            return _first_request(connection, job_id)

    def record(self, job_id: str) -> RunRecord | None:
        """A job's record, or None where the id was never used."""
        with self._database.connect() as connection:
            row = connection.execute(select(JOBS).where(JOBS.c.job_id == job_id)).first()
            if row is None:
                return None
            lines = connection.execute(
                select(JOURNAL).where(JOURNAL.c.job_id == job_id).order_by(JOURNAL.c.sequence)
            ).all()
        entries = [_entry(line.at, line.kind, line.data, line.digest) for line in lines]
        whole = tuple(entry for entry in entries if entry is not None)
        return _fold(row.job_id, row.name, _time(row.created), whole, len(entries) - len(whole))

    def records(self) -> list[RunRecord]:
        """Every job's record, oldest first."""
        with self._database.connect() as connection:
            ids = connection.execute(select(JOBS.c.job_id).order_by(JOBS.c.created)).scalars().all()
        return [record for record in map(self.record, ids) if record is not None]

    def holder_of(self, job_id: str) -> str | None:
        """Who drives a job now and since when, in words, or None."""
        with self._database.connect() as connection:
            row = connection.execute(select(LEASES).where(LEASES.c.job_id == job_id)).first()
        if row is None or not holder.alive(row.holder, row.expires, self._clock()):
            return None
        return f"{holder.words(row.holder)} since {_time(row.since):%Y-%m-%d %H:%M:%S} UTC"

    def last_hold(self, job_id: str) -> Hold | None:
        """Who held a job last, None where nobody ever did."""
        with self._database.connect() as connection:
            row = connection.execute(select(LEASES).where(LEASES.c.job_id == job_id)).first()
        if row is None:
            return None
        who = json.loads(row.holder)
        return Hold(str(who["host"]), str(who["place"]), float(row.expires))

    def _hold(self, connection: Connection, job_id: str, now: float) -> Lease:
        row = connection.execute(select(LEASES).where(LEASES.c.job_id == job_id)).first()
        me = holder.myself()
        if row is None:
            connection.execute(
                insert(LEASES).values(job_id=job_id, holder=me, fence=1, since=now, expires=now + LEASE_SECONDS)
            )
            return Lease(job_id, me, 1)
        changed = 0
        if not holder.alive(row.holder, row.expires, now):
            # Whoever else came in between has raised the fence, and then no row matches.
            changed = connection.execute(
                update(LEASES)
                .where(LEASES.c.job_id == job_id, LEASES.c.fence == row.fence)
                .values(holder=me, fence=row.fence + 1, since=now, expires=now + LEASE_SECONDS)
            ).rowcount
        if not changed:
            raise UsageError(
                f"{holder.words(row.holder)} holds this job since {_time(row.since):%Y-%m-%d %H:%M:%S} UTC",
                where=job_id,
                hint="wait for that driver, or end it first",
            )
        return Lease(job_id, me, row.fence + 1)

    def _append(self, connection: Connection, job_id: str, kind: str, data: dict[str, Any]) -> None:
        at = self._clock()
        text = json.dumps(data, sort_keys=True)
        connection.execute(
            insert(JOURNAL).values(job_id=job_id, at=at, kind=kind, data=text, digest=_digest(kind, text))
        )

    def _used(self, job_id: str, name: str) -> UsageError:
        record = self.record(job_id)
        if record is None:
            return UsageError(f"the cloud name {name} was used by another job", where=job_id, hint="choose another id")
        held = self.holder_of(job_id)
        if held is not None:
            return UsageError(
                f"this job is running: {held}",
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


def _first_request(connection: Connection, job_id: str) -> CancelRequest | None:
    lines = connection.execute(
        select(JOURNAL).where(JOURNAL.c.job_id == job_id, JOURNAL.c.kind == _CANCEL).order_by(JOURNAL.c.sequence)
    )
    entries = (_entry(line.at, line.kind, line.data, line.digest) for line in lines)
    return next((_request(entry) for entry in entries if entry is not None), None)


def _request(entry: Entry) -> CancelRequest:
    return CancelRequest(entry.at, str(entry.data.get("by", "")))


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}\n{text}".encode()).hexdigest()


def _entry(at: float, kind: str, text: str, digest: str) -> Entry | None:
    if _digest(kind, text) != digest:
        return None
    return Entry(_time(at), kind, json.loads(text))


def _fold(job_id: str, name: str, created: datetime, entries: tuple[Entry, ...], damaged: int) -> RunRecord:
    latest = {entry.kind: entry.data for entry in entries}
    times = {State(entry.data["state"]): entry.at for entry in entries if entry.kind == "state"}
    state = State(latest["state"]["state"]) if "state" in latest else State.QUEUED
    outcome = Outcome.from_json(latest["outcome"]) if "outcome" in latest else None
    return RunRecord(
        job_id=job_id,
        name=name,
        created=created,
        state=state,
        times=times,
        intent=latest.get("intent"),
        outcome=outcome,
        receipt=latest.get("receipt"),
        torn_down="gone" in latest,
        cancel=next((_request(entry) for entry in entries if entry.kind == _CANCEL), None),
        entries=entries,
        damaged=damaged,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
