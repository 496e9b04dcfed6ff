"""Submissions: jobs that wait in the record until there is room for a driver of their own.

A submission is on record in one transaction, whole or not at all. What becomes of it is decided once: it is begun (see
``Records.begin``), cancelled, or failed, whichever comes first; the database says which that was. So it does not matter
how often anybody tries to begin it. The job as it was sent is encrypted, since it may hold secrets, and is forgotten
with the job's end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from encamp.errors import UsageError
from encamp.redaction import redacted, redacted_data
from encamp.run.store import holder
from encamp.run.store.again import Again, AlreadyUsedError, NameUsedError, judged
from encamp.run.store.journal import CANCEL, SUBMITTED, Entry, fold, time_of
from encamp.run.store.journal_rows import GONE, add, drop, entries, lock_job
from encamp.run.store.states import Outcome, State
from encamp.run.store.tables import JOBS, JOURNAL, SUBMISSIONS
from encamp.run.store.waiting import Waiting, waiting_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.run.store.encryption import Cipher
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records

__all__ = ["Again", "AlreadyUsedError", "NameUsedError", "Submission", "Submissions", "Waiting"]


@dataclass(frozen=True)
class Submission:
    """A job to be begun when there is room.

    Attributes:
        name: its cloud name, see ``plan.names.short_name``.
        environment: name of the environment's stack.
        job: the Job resource as it was sent, with its id.
        by: e-mail of who sent it.
        priority: larger ones are begun first.
        wait_seconds: after how long it is cancelled where it has not run, None if it may wait for ever.
        warnings: warnings for the submitter, in sentences: its log says them.
    """

    job_id: str
    name: str
    environment: str
    job: dict[str, Any]
    by: str
    priority: int = 0
    wait_seconds: float | None = None
    warnings: tuple[str, ...] = ()


class Submissions:
    """The submissions of a record.

    Args:
        cipher: encrypts jobs as sent; None if jobs are neither submitted nor read.
    """

    def __init__(self, records: Records, cipher: Cipher | None = None) -> None:
        self._records = records
        self._transactions = records.transactions
        self._cipher = cipher

    def submit(self, submission: Submission, *, arrived: float | None = None) -> RunRecord:
        """Write a submission down; it waits from then on.

        ``arrived``: when its request came, by ``time.monotonic``; now, if it is not given.

        Raises:
            AlreadyUsedError: the id was used before.
            NameUsedError: the job's cloud name is another job's.
        """
        arrived = arrived if arrived is not None else time.monotonic()
        cipher = self._required_cipher()
        encrypted, digest = cipher.encrypt(submission.job), cipher.digest(submission.job)

        def written(connection: Connection) -> RunRecord:
            at = self._transactions.now(connection)
            connection.execute(_JOB, {"job_id": submission.job_id, "name": submission.name, "created": at})
            return _write(connection, at, submission, encrypted=encrypted, digest=digest)

        try:
            return self._transactions.write(written)
        except IntegrityError as error:
            known = self._records.record(submission.job_id)
            if known is None:
                raise NameUsedError(submission.job_id, submission.name) from error
            if self._is_there(submission.job_id, encrypted):
                return known
            again = self._again(submission, digest, arrived)
            raise AlreadyUsedError(submission.job_id, again) from error

    def acknowledge(self, job_id: str, *, told: bool = True) -> None:
        """Note that the answer to a create was sent; ``told=False``: it failed, and the client may ask again."""

        def noted(connection: Connection) -> None:
            at = self._transactions.now(connection) if told else 0.0
            connection.execute(_ANSWERED, {"job": job_id, "told_at": at})

        self._transactions.write(noted)

    def opened(self, job_id: str) -> dict[str, Any]:
        """Return the job as it was sent.

        Raises:
            UsageError: no such job was submitted, or it is over.
            DecryptionError: it cannot be decrypted.
        """
        asked = select(SUBMISSIONS.c.encrypted).where(SUBMISSIONS.c.job_id == job_id)
        encrypted = self._transactions.read(lambda connection: connection.execute(asked).scalar_one_or_none())
        if not encrypted:
            raise UsageError("no such job waits", where=job_id, hint="`encamp list` names every job")
        return self._required_cipher().decrypt(encrypted, job_id)

    def open(self, environment: str) -> list[Waiting]:
        """Return every submission of an environment that is not over, in the order in which they are begun."""
        asked: Any = (
            select(*_OPEN, JOBS.c.name)
            .join(JOBS, JOBS.c.job_id == SUBMISSIONS.c.job_id)
            .where(SUBMISSIONS.c.ended.is_(None), SUBMISSIONS.c.environment == environment)
            .order_by(SUBMISSIONS.c.priority.desc(), SUBMISSIONS.c.sequence)
        )

        def found(connection: Connection) -> list[Waiting]:
            now = self._transactions.now(connection)
            return [waiting_of(row, now) for row in connection.execute(asked)]

        return self._transactions.read(found)

    def waiting(self, environment: str) -> list[Waiting]:
        """Return the jobs that wait and are not claimed, the next one first."""
        return [one for one in self.open(environment) if one.begun is None and one.claimed is None]

    def positions(self, environment: str) -> dict[str, int]:
        """Return each waiting job's place in the queue, the next one's is 1."""
        where = {"environment": environment}
        ids = self._transactions.read(lambda connection: connection.execute(_PLACES, where).scalars().all())
        return {job_id: place for place, job_id in enumerate(ids, 1)}

    def position(self, job_id: str) -> int:
        """Return a job's place in its environment's queue from 1, 0 if it does not wait in it."""
        record = self._records.record(job_id)
        if record is None or not record.waiting or record.environment is None:
            return 0
        return self.positions(record.environment).get(job_id, 0)

    def claim(self, environment: str, *, besides: Sequence[str] = ()) -> Waiting | None:
        """Take the next one to begin it, None if none may be begun now; ``besides``: ids that are passed over.

        Two that claim at once never get the same.
        """

        def claimed(connection: Connection) -> str | None:
            now = self._transactions.now(connection)
            asked = (
                select(*_OPEN)
                .where(*_unclaimed(), SUBMISSIONS.c.environment == environment)
                .order_by(SUBMISSIONS.c.priority.desc(), SUBMISSIONS.c.sequence)
                .with_for_update(skip_locked=True)
            )
            for row in connection.execute(asked):
                late = row.wait_until is not None and row.wait_until <= now
                if late or row.job_id in besides or (row.not_before or 0.0) > now:
                    continue
                values = {"claimed": now, "claimed_by": holder.myself(), "driver": None}
                mine = update(SUBMISSIONS).where(SUBMISSIONS.c.job_id == row.job_id, *_unclaimed()).values(**values)
                if connection.execute(mine).rowcount == 1:
                    return str(row.job_id)
            return None

        taken = self._transactions.write(claimed)
        return next((one for one in self.open(environment) if one.job_id == taken), None) if taken else None

    def take_back(self, one: Waiting, trouble: str = "", *, pause: float = 0.0, tried: bool = True) -> bool:
        """Return a claimed job to the queue, for ``pause`` seconds at least.

        ``trouble`` is what was wrong, ``tried`` whether that counts as a try. False if it was begun, is over, or was
        claimed anew since ``one`` was read.
        """

        def taken_back(connection: Connection) -> bool:
            rows = (SUBMISSIONS.c.job_id == one.job_id, SUBMISSIONS.c.claimed == one.claimed, *_undecided())
            values = {
                **dict.fromkeys(("claimed", "claimed_by", "driver")),
                "tries": SUBMISSIONS.c.tries + int(tried),
                "not_before": self._transactions.now(connection) + pause,
                **({"trouble": redacted(trouble)} if trouble else {}),
            }
            return connection.execute(update(SUBMISSIONS).where(*rows).values(**values)).rowcount == 1

        return self._transactions.write(taken_back)

    def check_in(self, job_id: str) -> bool:
        """Register this process as the driver that will begin a job; False if it must not any more."""
        mine = update(SUBMISSIONS).where(SUBMISSIONS.c.job_id == job_id, *_undecided()).values(driver=holder.myself())
        return self._transactions.write(lambda connection: connection.execute(mine).rowcount == 1)

    def note_trouble(self, job_id: str, trouble: str) -> None:
        """Note what keeps a job from being begun, for the server that takes it back."""
        row = update(SUBMISSIONS).where(SUBMISSIONS.c.job_id == job_id, *_undecided())
        self._transactions.write(lambda connection: connection.execute(row.values(trouble=redacted(trouble))))

    def cancel(self, job_id: str, by: str, message: str = "") -> bool:
        """Cancel a job that waits, at once and for ever; False if it has been begun, is over, or was not handed in.

        ``message`` is why, where nobody asked for it.
        """
        outcome = Outcome(State.CANCELLED, redacted(message) or f"{by} cancelled it before it had begun")
        return self._end(job_id, outcome, {} if message else {"by": by})

    def fail(self, job_id: str, message: str) -> bool:
        """End a job that waits because it cannot be begun; False if it has been begun, is over or not handed in."""
        return self._end(job_id, Outcome(State.FAILED, redacted(message)), {})

    def fail_lost(self, environment: str) -> list[str]:
        """End what waits by its journal and has lost its row, such as with the end of a file that was cut off; ids."""
        found = self._transactions.read(lambda connection: connection.execute(_LOST).scalars().all())
        records = (self._records.record(job_id) for job_id in found)
        waiting = [one for one in records if one is not None and one.waiting and one.environment == environment]
        outcome = Outcome(State.FAILED, "the job as it was sent is lost: the record was damaged")

        def ended(connection: Connection, job_id: str) -> bool:
            at = self._transactions.now(connection)
            row = select(SUBMISSIONS.c.job_id).where(SUBMISSIONS.c.job_id == job_id)
            there = not lock_job(connection, job_id) or connection.execute(row).first() is not None
            # Another server may have done it since.
            if there or any(entries(connection, job_id, GONE)):
                return False
            _add_end(connection, at, job_id, outcome)
            return True

        lost = [one.job_id for one in waiting]
        return [job_id for job_id in lost if self._transactions.write(partial(ended, job_id=job_id))]

    def expire(self, environment: str) -> list[str]:
        """Cancel what has waited for longer than it may; ids."""
        now = self._transactions.read(self._transactions.now)
        late = [one for one in self.open(environment) if one.begun is None and one.wait_until is not None]
        message = "maxWaitTime is over: no driver was free to begin it"
        return [one.job_id for one in late if (one.wait_until or 0.0) <= now and self.cancel(one.job_id, "", message)]

    def _end(self, job_id: str, outcome: Outcome, request: dict[str, Any]) -> bool:
        """Write the whole end of a job that waits; ``request`` is that of who wants it cancelled."""

        def ended(connection: Connection) -> bool:
            at = self._transactions.now(connection)
            if not drop(connection, at, job_id):
                return False
            if request:
                add(connection, at, job_id, CANCEL, request)
            _add_end(connection, at, job_id, outcome)
            return True

        return self._transactions.write(ended)

    def _is_there(self, job_id: str, encrypted: str) -> bool:
        """Whether this very submission is on record: a server's connection may break after the transaction was done.

        Each encryption gives another text, even of the same job.
        """
        asked = select(SUBMISSIONS.c.job_id).where(SUBMISSIONS.c.job_id == job_id, SUBMISSIONS.c.encrypted == encrypted)
        return self._transactions.read(lambda connection: connection.execute(asked).first()) is not None

    def _again(self, submission: Submission, digest: str, arrived: float) -> Again:
        """Return how to answer a create of a used id: see ``Again``."""
        asked = select(SUBMISSIONS).where(SUBMISSIONS.c.job_id == submission.job_id)

        def looked(connection: Connection) -> Again:
            now = self._transactions.now(connection)
            row = connection.execute(asked).first()
            # Both clocks at one moment: what the create waited for until here is not time that it came later.
            came = now - (time.monotonic() - arrived)
            return judged(row, digest=digest, by=submission.by, arrived=came, now=now)

        return self._transactions.read(looked)

    def _required_cipher(self) -> Cipher:
        if self._cipher is None:
            raise TypeError("these submissions were opened without a cipher")
        return self._cipher


def _write(connection: Connection, at: float, submission: Submission, *, encrypted: str, digest: str) -> RunRecord:
    """Write all of a submission but the job's own row; what the record says from then on."""
    entry = {
        "name": submission.name,
        "environment": submission.environment,
        "job": redacted_data(submission.job),
        "by": submission.by,
        "priority": submission.priority,
        "warnings": [redacted(warning) for warning in submission.warnings],
    }
    sequence = add(connection, at, submission.job_id, SUBMITTED, entry)
    queued = {"state": str(State.QUEUED)}
    add(connection, at, submission.job_id, "state", queued)
    wait = submission.wait_seconds
    row = {
        "job_id": submission.job_id,
        "sequence": sequence,
        "environment": submission.environment,
        "priority": submission.priority,
        "at": at,
        "wait_until": at + wait if wait is not None else None,
        "creator": submission.by,
        "digest": digest,
        "encrypted": encrypted,
        "taken_by": holder.myself(),
        "tries": 0,
    }
    connection.execute(_SUBMITTED, row)
    entries = [Entry(time_of(at), SUBMITTED, entry), Entry(time_of(at), "state", queued)]
    return fold(submission.job_id, submission.name, time_of(at), entries)


def _add_end(connection: Connection, at: float, job_id: str, outcome: Outcome) -> None:
    """Write the end of a job of which nothing was ever created."""
    if outcome.state is State.CANCELLED:
        add(connection, at, job_id, "state", {"state": str(State.CANCELLING)})
    add(connection, at, job_id, "outcome", outcome.to_json())
    add(connection, at, job_id, "state", {"state": str(outcome.state)})
    add(connection, at, job_id, GONE, {})


def _undecided() -> tuple[Any, ...]:
    return SUBMISSIONS.c.begun.is_(None), SUBMISSIONS.c.ended.is_(None)


def _unclaimed() -> tuple[Any, ...]:
    return SUBMISSIONS.c.claimed.is_(None), *_undecided()


#: A submission without what was sent: that is opened by its driver alone, and may be long.
_OPEN = tuple(column for column in SUBMISSIONS.c if column.key != "encrypted")
_GONE = JOURNAL.alias()
#: Jobs that were handed in, whose submissions are not there, and that have not come to their end.
_LOST = select(JOURNAL.c.job_id).where(
    JOURNAL.c.kind == SUBMITTED,
    ~exists().where(SUBMISSIONS.c.job_id == JOURNAL.c.job_id),
    ~exists().where(_GONE.c.job_id == JOURNAL.c.job_id, _GONE.c.kind == GONE),
)
#: The statements of each create, built once: with values built in they cost five times as much.
_JOB, _SUBMITTED = insert(JOBS), insert(SUBMISSIONS)
_ANSWERED = (
    update(SUBMISSIONS)
    .where(SUBMISSIONS.c.job_id == bindparam("job"), SUBMISSIONS.c.answered.is_(None))
    .values(answered=bindparam("told_at"))
)
_PLACES = (
    select(SUBMISSIONS.c.job_id)
    .where(*_unclaimed(), SUBMISSIONS.c.environment == bindparam("environment"))
    .order_by(SUBMISSIONS.c.priority.desc(), SUBMISSIONS.c.sequence)
)
