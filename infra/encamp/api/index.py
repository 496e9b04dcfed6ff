"""Every job of the record in memory, as far as reads need it, and never stale.

Before each answer ``refresh`` reads what was added to the journal since the last time; of a file, looking whether there
is anything takes microseconds. Of a job the text that it is shown by is kept, where that is short, and what decides who
may see it. Long texts, such as those of jobs with many arguments or trials, are read from the record when they are
shown: what callers send does not decide how much memory the service takes.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from encamp.api.access import JobGrants
from encamp.api.resource import job_resource
from encamp.run.store.changes import Changes
from encamp.run.store.journal import CANCEL, LABELS, POLICY, SUBMITTED, fold
from encamp.run.store.journal_rows import GONE
from encamp.run.store.trial_journal import RESUMED, TRIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from encamp.run.store.changes import Line
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records
    from encamp.run.store.states import State

#: Bytes of a job's text that are kept, and of a policy's.
LONGEST_KEPT: Final = 2048
#: Bytes of long texts that are kept for who asks again.
_MOST_RECENT: Final = 16 * 2**20
#: Number of jobs that are read from the record in one statement.
_AT_ONCE: Final = 20
#: Entries of trials change what is shown and nothing else.
_SHOWN_ONLY: Final = frozenset({TRIAL, RESUMED})
_DECIDING: Final = frozenset({"intent", SUBMITTED, LABELS, POLICY, CANCEL, GONE, "state", "outcome"})
_KINDS: Final = _DECIDING | _SHOWN_ONLY

_T = TypeVar("_T")
#: A place in the order of jobs: when it was created, in seconds since the epoch, and its id.
Place = tuple[float, str]


class NotInMemoryError(Exception):
    """The answer needs a query of the record, for which nobody else may have to wait."""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """The cached data of a job at one moment; a change creates another one.

    Attributes:
        created: seconds since the epoch.
        environment: None if what says so is lost.
        by: the submitter; empty if it was not submitted.
        waiting: whether it was handed in and nobody has begun it.
        grants: its grants; None if they are long.
        text: the Job resource as JSON, without its place in the queue; None if that is long, or was not read yet.
    """

    job_id: str
    created: float
    environment: str | None
    state: State
    by: str
    waiting: bool
    grants: JobGrants | None
    text: bytes | None

    @classmethod
    def of(cls, record: RunRecord) -> KnownJob:
        """Return the job of a record."""
        text = text_of(record)
        found = grants(record)
        return cls(
            record.job_id,
            record.created.timestamp(),
            record.environment,
            record.state,
            record.submitted.by if record.submitted is not None else "",
            record.waiting,
            found if len(str(found.policy)) <= LONGEST_KEPT else None,
            text if len(text) <= LONGEST_KEPT else None,
        )

    @property
    def place(self) -> Place:
        """Place in the order of jobs."""
        return self.created, self.job_id


class Index:
    """The jobs of one environment.

    Args:
        environment: name of its stack; jobs of others are not shown.
        positions: asks for each waiting job's place in the queue.
    """

    def __init__(self, records: Records, environment: str, positions: Callable[[], Mapping[str, int]]) -> None:
        self._records = records
        self._changes = Changes(records.transactions, _KINDS)
        self._environment = environment
        self._positions = positions
        self._jobs: dict[str, KnownJob] = {}
        self._order: list[Place] = []
        self._stale: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._waiting_of: Counter[str] = Counter()
        self._places: Mapping[str, int] = {}
        self._recent = _Recent()
        self._lock = threading.Lock()
        # Numbers of the latest look that was begun, and of the latest one that came to an end.
        self._begun = self._good = 0

    def current(self) -> bool:
        """Whether ``refresh`` would find nothing; False where only that tells. Takes microseconds."""
        return self._changes.quiet() and not self._stale

    def refresh(self) -> None:
        """Update to the record's present state.

        Raises:
            RecordError: the record cannot be read.
        """
        before = self._begun
        if self.current():
            return
        with self._lock:
            # A caller that waited for a look which began after it came needs none of its own.
            if self._good > before:
                return
            self._begun += 1
            self._changes.take(self._apply)
            self._settle()
            self._good = self._begun

    def job(self, job_id: str) -> KnownJob | None:
        """Return a job of this environment, or None."""
        found = self._jobs.get(job_id)
        return found if found is not None and self._is_here(found) else None

    def used(self, job_id: str) -> bool:
        """Whether a job of any environment has an id."""
        return job_id in self._jobs

    def waiting(self, by: str | None = None) -> int:
        """Return the number of waiting jobs of this environment; ``by``: of those that somebody submitted."""
        return len(self._waiting) if by is None else self._waiting_of[by]

    def newest_first(self, after: Place | None = None) -> Iterator[KnownJob]:
        """Yield the jobs of this environment; ``after``: those that come after a place.

        Jobs that are added meanwhile do not change what comes.
        """
        order = self._order
        at = bisect_left(order, after) if after is not None else len(order)
        for position in range(at - 1, -1, -1):
            job = self._jobs[order[position][1]]
            if self._is_here(job):
                yield job

    def shown(self, jobs: Iterable[KnownJob], *, in_memory: bool = False) -> Iterator[tuple[KnownJob, bytes]]:
        """Yield each of some jobs with the Job resource as JSON; few are read ahead.

        Raises:
            NotInMemoryError: ``in_memory``, and one has to be read.
            RecordError: the record cannot be read.
        """
        for some in _batched(jobs, _AT_ONCE):
            texts = {job.job_id: job.text or self._recent.text(job) for job in some}
            missing = [job for job in some if texts[job.job_id] is None]
            if missing and in_memory:
                raise NotInMemoryError
            texts |= self._read(missing)
            for job in some:
                yield job, self._with_position(job, texts[job.job_id] or b"{}")

    def text(self, job: KnownJob, *, in_memory: bool = False) -> bytes:
        """Return the Job resource of a job as JSON; raises as ``shown``."""
        return next(text for _, text in self.shown([job], in_memory=in_memory))

    def record(self, job_id: str) -> RunRecord | None:
        """Return the part of a job's record that decides what may be done, read now; None if the id was never used.

        Raises:
            RecordError: the record cannot be read.
        """
        return next(iter(self._records.folded([job_id], _DECIDING)), None)

    def grants(self, job: KnownJob, *, in_memory: bool = False) -> JobGrants:
        """Return the grants of a job; raises as ``shown``."""
        if job.grants is not None:
            return job.grants
        if in_memory:
            raise NotInMemoryError
        record = self.record(job.job_id)
        return grants(record) if record is not None else JobGrants(None, None)

    def close(self) -> None:
        """Look no more."""
        self._changes.close()

    def _is_here(self, job: KnownJob) -> bool:
        return job.environment is None or job.environment == self._environment

    def _with_position(self, job: KnownJob, text: bytes) -> bytes:
        position = self._places.get(job.job_id) if job.waiting else None
        return text if position is None else b'%s,"jobPosition":"%d"}' % (text[:-1], position)

    def _apply(self, lines: list[Line]) -> None:
        """Take some lines of the journal. New jobs that they tell whole are known; others are read anew later."""
        added: dict[str, list[Line]] = {}
        for line in lines:
            added.setdefault(line.job_id, []).append(line)
        new: list[KnownJob] = []
        for job_id, own in added.items():
            known = self._jobs.get(job_id)
            if known is not None and all(line.kind in _SHOWN_ONLY for line in own):
                self._jobs[job_id] = replace(known, text=None)
            elif known is not None or any(line.long or line.kind in _SHOWN_ONLY for line in own):
                self._stale.add(job_id)
            else:
                new.append(KnownJob.of(fold(job_id, own[0].name, own[0].created, [line.entry for line in own])))
        self._keep(new)

    def _settle(self) -> None:
        """Read anew what was not told whole."""
        for some in _batched(sorted(self._stale), _AT_ONCE):
            self._keep([KnownJob.of(record) for record in self._records.folded(some, _KINDS)])
            self._stale.difference_update(some)
        if self._waiting or self._places:
            self._places = self._positions()

    def _keep(self, jobs: list[KnownJob]) -> None:
        places = sorted(job.place for job in jobs if job.job_id not in self._jobs)
        for job in jobs:
            self._jobs[job.job_id] = job
            self._count(job)
        if places:
            # Another list each time: whoever reads the present one goes on in it. What is new is the newest nearly
            # always, and to compare 10,000 places takes longer than a read.
            in_order = not self._order or self._order[-1] <= places[0]
            self._order = [*self._order, *places] if in_order else sorted([*self._order, *places])

    def _count(self, job: KnownJob) -> None:
        by = self._waiting.pop(job.job_id, None)
        if by is not None:
            self._waiting_of -= Counter((by,))
        if job.waiting and self._is_here(job):
            self._waiting[job.job_id] = job.by
            self._waiting_of[job.by] += 1

    def _read(self, jobs: Iterable[KnownJob]) -> dict[str, bytes | None]:
        """Return texts of jobs, read now, and cache those that may be cached."""
        known = {job.job_id: job for job in jobs}
        texts: dict[str, bytes | None] = {}
        if known:
            for record in self._records.folded(list(known), _KINDS):
                text = texts[record.job_id] = text_of(record)
                self._remember(known[record.job_id], text)
        return texts

    def _remember(self, job: KnownJob, text: bytes) -> None:
        with self._lock:
            if self._jobs.get(job.job_id) is not job:
                return
            if len(text) <= LONGEST_KEPT:
                self._jobs[job.job_id] = replace(job, text=text)
            else:
                self._recent.put(job, text)


class _Recent:
    """Long texts of jobs that were shown lately, as long as they are current."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, tuple[KnownJob, bytes]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def text(self, job: KnownJob) -> bytes | None:
        """Return the text of a job, None if it is not kept or is an old one."""
        with self._lock:
            of, text = self._texts.get(job.job_id, (None, None))
            if of is job:
                self._texts.move_to_end(job.job_id)
                return text
            return None

    def put(self, job: KnownJob, text: bytes) -> None:
        """Keep a text, and evict the least recently used ones."""
        with self._lock:
            _, before = self._texts.pop(job.job_id, (None, b""))
            self._texts[job.job_id] = (job, text)
            self._bytes += len(text) - len(before)
            while self._bytes > _MOST_RECENT:
                _, (_, gone) = self._texts.popitem(last=False)
                self._bytes -= len(gone)


def grants(record: RunRecord) -> JobGrants:
    """Return the grants of a job."""
    if record.submitted is not None:
        return JobGrants(record.submitted.by or None, record.policy)
    started = (record.intent or {}).get("startedBy")
    account = started.get("account") if isinstance(started, dict) else None
    return JobGrants(str(account) if account else None, record.policy)


def text_of(record: RunRecord) -> bytes:
    """Return the Job resource of a record as JSON."""
    return json.dumps(job_resource(record), separators=(",", ":")).encode()


def _batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    found = iter(items)
    while some := list(islice(found, size)):
        yield some
