"""Brings jobs without a living driver to their end, whoever started them and whatever died on the way.

Left alone: a job that a living driver holds, one that still trains within its limits, anything that does not carry
the labels of this owner's and this environment's jobs, and every environment. What had succeeded stays SUCCEEDED. Of
jobs that have ended, what was to be kept for a time and no longer goes (see ``retention``).
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from sqlalchemy.exc import SQLAlchemyError

from encamp.cloud.leftovers import JobPlace, leftovers
from encamp.cloud.storage import Storage
from encamp.errors import EncampError, EngineError, TeardownError, UsageError
from encamp.plan.environment.in_cluster import ENDINGS_AT_ONCE
from encamp.project import project_folder
from encamp.run.engine.job_engine import JobEngine
from encamp.run.history.retention import delete_results, expired
from encamp.run.history.unsealed import store_logs, unsealed
from encamp.run.lifecycle.candidates import Candidate, Search
from encamp.run.lifecycle.finding import Finding, Verdict, worst
from encamp.run.lifecycle.reaper import Reaper
from encamp.run.lifecycle.target import find_target, open_cluster
from encamp.run.lifecycle.telling import Teller
from encamp.run.store.database_trouble import words

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from encamp.run.engine.run_errors import UnreadableStateError
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.listing import Things
    from encamp.run.lifecycle.target import Target
    from encamp.run.store.records import Records

__all__ = ["Finding", "ReapOptions", "Verdict", "reap", "worst"]

_INTERVAL_SECONDS = 30.0


@dataclass(frozen=True)
class ReapOptions:
    """How to reap.

    Attributes:
        dry_run: only say what would be done.
        wait: supervise what still trains to its end.
        watch: go on for ever, looking for more each so many seconds; supervises too.
        job: id or cloud name of the only job that is looked at.
        tell: let the project's log know that the jobs were looked at, and of what could not be brought to its end.
        quiet: say nothing of an environment that is not up.
    """

    dry_run: bool = False
    wait: bool = False
    watch: float | None = None
    job: str | None = None
    tell: bool = False
    quiet: bool = False


def reap(
    context: Context,
    environment: str,
    options: ReapOptions | None = None,
    *,
    found: Callable[[Finding], None] = lambda _: None,
    clock: Callable[[], float] | None = None,
) -> list[Finding]:
    """Look at every job of an environment that may need an end, and at ended ones whose results are kept no longer.

    Args:
        context: what to work with, and where lines for people go.
        environment: name of its stack.
        options: how; by default one look that supervises nothing.
        found: gets each finding as it comes, when watching only those that say something new.
        clock: seconds since the epoch by which results, and what no record knows, are judged; the record's if None.

    Returns:
        The last finding of each job.

    Raises:
        UsageError: there is no such environment, or no such job.
        EngineError: the engine cannot be asked for its stacks.
    """
    records = context.records()
    try:
        target = find_target(context, environment, quiet=bool(options and options.quiet))
        return _Reaping(context, records, target, options or ReapOptions(), found, clock or records.now).run()
    finally:
        records.close()


@dataclass
class _Reaping:
    context: Context
    records: Records
    target: Target
    options: ReapOptions
    found: Callable[[Finding], None]
    clock: Callable[[], float]
    _last: dict[str, Finding] = field(default_factory=dict)
    _hands: dict[str, _Hand] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)
    _gate: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(ENDINGS_AT_ONCE))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopped: bool = False

    def run(self) -> list[Finding]:
        with _Signals(self._stop):
            self._round(first=True)
            while not self._stopped and (self.options.watch is not None or self._busy()):
                self._wake.wait(self.options.watch or _INTERVAL_SECONDS)
                self._wake.clear()
                if not self._stopped and (self.options.wait or self.options.watch is not None):
                    self._round()
            for hand in list(self._hands.values()):
                hand.thread.join()
        findings = list(self._last.values())
        if self.options.tell and not self._stopped:
            troubles = sum(finding.verdict is Verdict.FAILED for finding in findings)
            self._teller().reaped(len(findings), troubles)
        return findings

    def _teller(self) -> Teller:
        place, labels = self.target.outputs, self.target.labels
        return Teller(
            self.context.client,
            project=place.project,
            cluster=place.cluster_path,
            labels=labels,
            show=self.context.show,
        )

    def _round(self, *, first: bool = False) -> None:
        search = Search(self.context, self.records, self.target, self.options.job)
        try:
            candidates, strangers = search.run()
        except EncampError as error:
            if first and self.options.watch is None:
                raise
            self._say(Finding("the jobs", Verdict.FAILED, error.what, error=error))
            return
        for what, error in search.troubles:
            self._say(Finding(what, Verdict.FAILED, error.what, error=error))
        for candidate in candidates:
            self._take(candidate)
        stored = (first or self.options.watch is not None) and self._store()
        if self.options.job is not None:
            if first and not candidates and not stored:
                self._say(self._missing(self.options.job))
            return
        for stack, unreadable in search.unreadable.items():
            self._say(self._set_aside(stack, unreadable))
        for stranger in strangers:
            self._say(_end_stranger(stranger, self.context, self.target, self.clock(), dry_run=self.options.dry_run))
        if first or self.options.watch is not None:
            self._expire()

    def _take(self, candidate: Candidate) -> None:
        """Begin with a job, unless it is in hand or, without ``watch``, had its try."""
        job, name = candidate.intent.job_id, candidate.intent.name
        if name in self._hands or (self.options.watch is None and name in self._tried):
            return
        held = self.records.holder_of(job)
        if held is not None:
            self._say(Finding(job, Verdict.HELD, f"{held} drives it"))
        elif self.options.dry_run:
            self._say(self._looked_at(candidate))
        else:
            self._tried.add(name)
            hand = _Hand(threading.Thread(target=self._work, args=(candidate,), name=f"reap {name}"))
            self._hands[name] = hand
            hand.thread.start()

    def _set_aside(self, stack: str, error: UnreadableStateError) -> Finding:
        """Rename a state that says nothing any more, and keeps the engine from listing all others."""
        what = f"stack {stack}"
        if self.options.dry_run:
            return Finding(what, Verdict.WOULD_SET_ASIDE, error.what)
        try:
            place = JobEngine(project_folder(), self.context.show).set_aside(stack)
        except EncampError as trouble:
            return Finding(what, Verdict.FAILED, trouble.what, error=trouble)
        return Finding(what, Verdict.SET_ASIDE, f"{error.what}; it is kept as {place}")

    def _looked_at(self, candidate: Candidate) -> Finding:
        try:
            reaper = Reaper(candidate, self.context, self.records, self.target)
            try:
                return reaper.dry_run()
            finally:
                reaper.close()
        except EncampError as error:
            return _failed(candidate, error)

    def _work(self, candidate: Candidate) -> None:
        """One job from beginning to end, in a thread of its own: its trouble is nobody else's."""
        finding = Finding(candidate.intent.job_id, Verdict.FAILED, "encamp itself failed; its traceback says how")
        try:
            finding = self._reaped(candidate)
        finally:
            self._say(finding)
            self._hands.pop(candidate.intent.name, None)
            self._wake.set()

    def _reaped(self, candidate: Candidate) -> Finding:
        try:
            reaper = Reaper(candidate, self._context_of(candidate), self.records, self.target, self._gate)
            try:
                self._hands[candidate.intent.name].reaper = reaper
                if self._stopped:
                    reaper.leave()
                return reaper.run(wait=self.options.wait or self.options.watch is not None)
            finally:
                reaper.close()
        except UsageError as error:
            return Finding(candidate.intent.job_id, Verdict.HELD, error.what)
        except EncampError as error:
            return _failed(candidate, error)
        except SQLAlchemyError as error:
            trouble = EngineError(f"the record gives no answer: {words(error)}", where=candidate.intent.job_id)
            return _failed(candidate, trouble)

    def _context_of(self, candidate: Candidate) -> Context:
        """Lines of several jobs name theirs."""
        if self.options.job is not None:
            return self.context
        job, show, log = candidate.intent.job_id, self.context.show, self.context.log
        return replace(
            self.context,
            show=lambda line: show(line if line.startswith(f"{job}: ") else f"{job}: {line}"),
            log=lambda replica, line: log(f"{job} {replica}", line),
        )

    def _missing(self, job: str) -> Finding:
        record = next((one for one in self.records.records() if job in {one.job_id, one.name}), None)
        if record is None:
            raise UsageError(
                "no such job in this environment", where=job, hint="`encamp list` names every job that is known"
            )
        if record.waiting:
            return Finding(record.job_id, Verdict.HELD, "it waits until a driver is free; `encamp cancel` ends it")
        return Finding(record.job_id, Verdict.HELD, f"it has come to its end: {record.state}")

    def _say(self, finding: Finding) -> None:
        with self._lock:
            before = self._last.get(finding.job)
            self._last[finding.job] = finding
            if before is None or (before.verdict, before.why) != (finding.verdict, finding.why):
                self.found(finding)
                # An ending that was begun has told of itself.
                if self.options.tell and finding.verdict is Verdict.FAILED and finding.result is None:
                    self._teller().not_ended(finding.job, finding.why)

    def _busy(self) -> bool:
        return bool(self._hands)

    def _stop(self) -> None:
        self._stopped = True
        for hand in list(self._hands.values()):
            if hand.reaper is not None:
                hand.reaper.leave()
        self.context.show("no more jobs are taken; those that train are left to it, those that end come to their ends")
        self._wake.set()

    def _store(self) -> bool:
        """Store logs that could not be stored when their jobs ended; whether there were any."""
        due = [
            one
            for one in unsealed(self.context, self.records)
            if one.intent.artifacts_bucket == self.target.outputs.artifacts_bucket
            and self.options.job in {None, one.intent.job_id, one.intent.name}
        ]
        for one in due:
            job, why = one.intent.job_id, f"they are in {one.spool}"
            try:
                if self.options.dry_run:
                    self._say(Finding(job, Verdict.WOULD_SEAL, why))
                elif store_logs(one, self.context, self.records).stored:
                    self._say(Finding(job, Verdict.SEALED, "they were left on this machine when it ended"))
                else:
                    self._say(Finding(job, Verdict.HELD, f"its logs cannot be stored yet; {why}"))
            except UsageError as error:
                self._say(Finding(job, Verdict.HELD, error.what))
            except EncampError as error:
                self._say(Finding(job, Verdict.FAILED, error.what, error=error))
        return bool(due)

    def _expire(self) -> None:
        """Delete what jobs left whose term has passed."""
        now = datetime.fromtimestamp(self.clock(), UTC)
        storage = Storage(self.context.client)
        bucket = self.target.outputs.artifacts_bucket
        try:
            if storage.bucket(bucket) is None:
                return
            due = list(expired(storage, bucket, now))
        except EncampError as error:
            self._say(Finding(f"gs://{bucket}", Verdict.FAILED, error.what, error=error))
            return
        for one in due:
            why = f"they were kept until {one.until:%Y-%m-%d %H:%M:%S} UTC"
            try:
                if not self.options.dry_run:
                    delete_results(storage, one, now)
                verdict = Verdict.WOULD_EXPIRE if self.options.dry_run else Verdict.EXPIRED
                self._say(Finding(one.job_id, verdict, why))
            except EncampError as error:
                self._say(Finding(one.job_id, Verdict.FAILED, error.what, error=error))


@dataclass
class _Hand:
    """A job that a thread is at work on; ``reaper`` once it has been looked at."""

    thread: threading.Thread
    reaper: Reaper | None = None


class _Signals:
    """Lets Ctrl-C, SIGTERM and SIGHUP end the reaping, not the jobs; only where a main thread reaps."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        # In a thread: what this one holds locked while it is interrupted would be waited for for ever.
        threading.Thread(target=self._stop, name="stop", daemon=True).start()


def _failed(candidate: Candidate, error: EncampError) -> Finding:
    return Finding(candidate.intent.job_id, Verdict.FAILED, error.what, error=error)


def _end_stranger(stranger: Things, context: Context, target: Target, now: float, *, dry_run: bool) -> Finding:
    """Things that do not say which job they are of: gone with their deadline, never before."""
    job = stranger.name
    if stranger.deadline is None or stranger.deadline > now:
        why = "only the cloud knows it, and it may be another driver's until its deadline"
        return Finding(job, Verdict.HELD, why, resources=stranger.found)
    if dry_run:
        why = "only the cloud knows it, and its deadline has passed"
        return Finding(job, Verdict.WOULD_END, why, resources=stranger.found)
    try:
        _sweep(stranger, context, target)
    except EncampError as error:
        return Finding(job, Verdict.FAILED, error.what, error=error)
    return Finding(job, Verdict.ENDED, f"only the cloud knew it, and its deadline had passed ({_names(stranger)})")


def _names(stranger: Things) -> str:
    return ", ".join(stranger.found)


def _sweep(stranger: Things, context: Context, target: Target) -> None:
    where = target.outputs
    place = JobPlace(
        project=where.project,
        labels=stranger.labels,
        cluster=where.cluster_path,
        namespace=where.namespace,
        buckets=(where.artifacts_bucket,),
    )
    cluster = open_cluster(context.client, where, where.cluster_path)
    try:
        for one in leftovers(context.client, place, cluster):
            context.show(f"{stranger.name}: deleting {one}")
            one.delete()
        left = leftovers(context.client, place, cluster)
    finally:
        if cluster is not None:
            cluster.close()
    if left:
        raise TeardownError(f"the cloud still lists {', '.join(map(str, left))}", hint="run `encamp reap` again")
