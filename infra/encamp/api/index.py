"""Every job of the record in memory, as the API shows it, and never behind the record.

Before each answer ``refresh`` reads what was added to the journal since the last time; of a file, looking whether there
is anything takes microseconds. Of a job no more is kept than what it is shown by.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from encamp.api.resource import job_resource
from encamp.run.changes import Changes
from encamp.run.journal import CANCEL, LABELS, POLICY, SUBMITTED, Entry, fold
from encamp.run.journal_rows import GONE
from encamp.run.study.journal import RESUMED, TRIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from encamp.run.changes import Line
    from encamp.run.journal import RunRecord
    from encamp.run.records import Records

_INTENT: Final = "intent"
_KINDS: Final = frozenset({_INTENT, SUBMITTED, LABELS, POLICY, CANCEL, GONE, TRIAL, RESUMED, "state", "outcome"})
#: What of an intent is shown; the rest of it is the greater part.
_OF_INTENT: Final = ("environment", "job", "study", "started_by")

#: A place in the order of jobs: when it was created, in seconds since the epoch, and its id.
Place = tuple[float, str]


class KnownJob:
    """A job at one moment; what changes makes another.

    Args:
        record: without what is not shown.
        entries: what is kept of its journal, by sequence.
        position: its place among those that wait, from 1; 0 where it does not.
    """

    def __init__(self, record: RunRecord, entries: Mapping[int, Entry | None], position: int = 0) -> None:
        self.record = record
        self.environment = record.environment
        self.position = position
        self._entries = entries

    @classmethod
    def of(cls, job_id: str, name: str, created: datetime, entries: Mapping[int, Entry | None]) -> KnownJob:
        """The job that entries of its journal tell of."""
        kept = _kept(entries)
        return cls(fold(job_id, name, created, [kept[sequence] for sequence in sorted(kept)]), kept)

    @property
    def place(self) -> Place:
        """Where it stands in the order of jobs."""
        return self.record.created.timestamp(), self.record.job_id

    @cached_property
    def resource(self) -> Mapping[str, Any]:
        """The Job resource."""
        found = job_resource(self.record)
        return {**found, "jobPosition": str(self.position)} if self.position else found

    @cached_property
    def text(self) -> bytes:
        """The Job resource as JSON."""
        return json.dumps(self.resource, separators=(",", ":")).encode()

    def with_entries(self, added: Mapping[int, Entry | None]) -> KnownJob:
        """The job with more entries, which may be earlier ones."""
        record = self.record
        return KnownJob.of(record.job_id, record.name, record.created, {**self._entries, **added}).at(self.position)

    def at(self, position: int) -> KnownJob:
        """The job at a place in the queue."""
        return KnownJob(self.record, self._entries, position)


class Index:
    """The jobs of one environment.

    Args:
        environment: name of its stack; jobs of others are not shown.
        positions: asks for each waiting job's place in the queue.
    """

    def __init__(self, records: Records, environment: str, positions: Callable[[], Mapping[str, int]]) -> None:
        self._changes = Changes(records.transactions, _KINDS)
        self._environment = environment
        self._positions = positions
        self._jobs: dict[str, KnownJob] = {}
        self._order: list[Place] = []
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        # Numbers of the latest look that was begun, and of the latest one that came to an end.
        self._begun = self._good = 0

    def current(self) -> bool:
        """Whether ``refresh`` would find nothing; False where only that tells. Takes microseconds."""
        return self._changes.quiet()

    def refresh(self) -> None:
        """Be at least as new as the record is now.

        Raises:
            RecordError: the record cannot be read.
        """
        before = self._begun
        if self._changes.quiet():
            return
        with self._lock:
            # Whoever waited here for a look that began after they came needs none of their own.
            if self._good > before:
                return
            self._begun += 1
            self._changes.take(self._apply)
            self._good = self._begun

    def job(self, job_id: str) -> KnownJob | None:
        """A job of this environment, None where there is none such."""
        found = self._jobs.get(job_id)
        return found if found is not None and self._is_here(found) else None

    def used(self, job_id: str) -> bool:
        """Whether a job of any environment has an id."""
        return job_id in self._jobs

    def newest_first(self, after: Place | None = None) -> Iterator[KnownJob]:
        """The jobs of this environment; ``after``: those that come after a place.

        Jobs that are added meanwhile do not change what comes.
        """
        order = self._order
        at = bisect_left(order, after) if after is not None else len(order)
        for position in range(at - 1, -1, -1):
            job = self._jobs[order[position][1]]
            if self._is_here(job):
                yield job

    def close(self) -> None:
        """Look no more."""
        self._changes.close()

    def _is_here(self, job: KnownJob) -> bool:
        return job.environment is None or job.environment == self._environment

    def _apply(self, lines: list[Line]) -> None:
        added: dict[str, dict[int, Entry | None]] = {}
        heads: dict[str, Line] = {}
        for line in lines:
            added.setdefault(line.job_id, {})[line.sequence] = line.entry
            heads[line.job_id] = line
        new = [self._add(heads[job_id], entries) for job_id, entries in added.items() if job_id not in self._jobs]
        for job_id in added.keys() - {job.record.job_id for job in new}:
            self._add(heads[job_id], added[job_id])
        if new:
            # Another list each time: whoever reads the present one goes on in it.
            order = [*self._order, *sorted(job.place for job in new)]
            # What is new is the newest nearly always, and to compare 10,000 places takes longer than a read.
            self._order = order if order[len(self._order)] >= order[max(len(self._order) - 1, 0)] else sorted(order)
        if self._waiting:
            positions = self._positions()
            for job_id in list(self._waiting):
                self._queue(job_id, positions.get(job_id, 0))

    def _add(self, head: Line, entries: Mapping[int, Entry | None]) -> KnownJob:
        known = self._jobs.get(head.job_id)
        if known is not None:
            job = known.with_entries(entries)
        else:
            job = KnownJob.of(head.job_id, head.name, head.created, entries)
        self._jobs[head.job_id] = job
        if job.record.waiting:
            self._waiting.add(head.job_id)
        return job

    def _queue(self, job_id: str, position: int) -> None:
        job = self._jobs[job_id]
        if not job.record.waiting:
            position = 0
            self._waiting.discard(job_id)
        if job.position != position:
            self._jobs[job_id] = job.at(position)


def _kept(entries: Mapping[int, Entry | None]) -> dict[int, Entry | None]:
    """What is shown of entries: little of an intent, and of a trial what was written last."""
    found: dict[int, Entry | None] = {}
    trials: dict[object, int] = {}
    for sequence in sorted(entries):
        entry = entries[sequence]
        if entry is not None and entry.kind == _INTENT:
            entry = Entry(entry.at, entry.kind, {key: entry.data[key] for key in _OF_INTENT if key in entry.data})
        if entry is not None and entry.kind == TRIAL:
            earlier = trials.get(number := str(entry.data.get("number")))
            if earlier is not None:
                del found[earlier]
            trials[number] = sequence
            # Thousands, of which the resource shows the final one alone.
            entry = Entry(entry.at, entry.kind, {**entry.data, "measurements": []})
        found[sequence] = entry
    return found
