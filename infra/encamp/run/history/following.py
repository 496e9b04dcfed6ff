"""Following of a job that another process drives, to its end: its driver's messages, its replicas' output, its end.

Where the driver is of this machine its files are read as they grow; where it is not, the record says the states and the
cluster gives the logs. Changes nothing, but starts an adopter for a job that nobody drives.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from encamp.errors import EncampError, EngineError
from encamp.run.history.detached import let_go, start_adopter
from encamp.run.history.live import LiveJob
from encamp.run.store.submissions import Submissions

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Records, RunRecord

_POLL_SECONDS = 0.5
_DRAIN_SECONDS = 10.0
_SAY_SECONDS = 5.0
_TAIL_LINES = 3


class Source(Protocol):
    """A source of a job's new text."""

    def look(self) -> None:
        """Show what has come since."""
        ...

    def end(self) -> None:
        """Show what there is left, once the job has ended, and let go."""
        ...


class Follower:
    """A follower of one job.

    Args:
        log: its driver's log, also of a driver that has yet to be started.
        show: gets what is to be said beside what the sources show.
        sources: what is read at each look.
        limit: how many seconds to wait for its end; then it is said every few seconds what it is that is waited for.
    """

    def __init__(
        self,
        job_id: str,
        environment: str,
        records: Records,
        *,
        log: Path,
        show: Callable[[str], None],
        sources: Sequence[Source] = (),
        limit: float | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._job = job_id
        self._environment = environment
        self._records = records
        self._log = log
        self._show = show
        self._sources = sources
        self._limit = limit
        self._sleep = sleep
        self._begun = self._said = time.monotonic()
        self._adopter: subprocess.Popen[bytes] | None = None
        self._results = 0
        self._driven = False

    def run(self) -> RunRecord:
        """Follow to the end and return the record. A job without a driver is given one, once.

        Raises:
            EngineError: whoever took the job over ended before it, or it has not ended within the limit.
        """
        self._results = _results(self._read())
        try:
            return self._follow()
        finally:
            if self._adopter is not None:
                let_go(self._adopter)

    def _follow(self) -> RunRecord:
        while True:
            held, record = self._look()
            if not held and self._is_over(record):
                for source in self._sources:
                    source.end()
                return record
            if not held:
                self._adopt()
            if self._limit is not None:
                self._say_waiting(record, self._limit)
            self._sleep(_POLL_SECONDS)

    def _say_waiting(self, record: RunRecord, limit: float) -> None:
        """Show every few seconds what is waited for.

        Raises:
            EngineError: for too long.
        """
        now = time.monotonic()
        waited = now - self._begun
        who = self._records.holder_of(self._job)
        what = f"it is {record.state}, and {f'{who} drives it' if who else 'nobody drives it yet'}"
        if waited > limit:
            raise EngineError(
                f"it has not ended within {limit:.0f} s: {what}; the request stays on record",
                where=self._job,
                hint=f"look at {self._log}; end that process if it hangs, and run `encamp reap --job {self._job}`",
            )
        if now - self._said >= _SAY_SECONDS:
            self._said = now
            self._show(f"waiting for its end for {waited:.0f} s: {what}")

    def _look(self) -> tuple[bool, RunRecord]:
        """Whether the job is driven, and its record, which is at least as new."""
        held = self._records.holder_of(self._job) is not None
        self._driven = self._driven or held
        for source in self._sources:
            source.look()
        return held, self._read()

    def _is_over(self, record: RunRecord) -> bool:
        """Whether whoever drove the job while it was followed has brought it to an end, if not a good one."""
        driven = self._driven or self._adopter is not None
        return record.torn_down or (driven and _results(record) > self._results)

    def _adopt(self) -> None:
        if self._adopter is None:
            self._show("nobody drives this job; a driver is started that takes it over")
            self._adopter = start_adopter(self._job, self._environment, self._log)
        elif self._adopter.poll() is not None:
            # It may have been refused because somebody else was faster, or have ended the job since.
            held, record = self._look()
            if not held and not self._is_over(record):
                raise EngineError(
                    f"the driver that should adopt it exited with {self._adopter.returncode}{_tail(self._log)}",
                    where=self._job,
                    hint="`encamp reap` tries again",
                )

    def _read(self) -> RunRecord:
        record = self._records.record(self._job)
        if record is None:
            raise EngineError("its record is gone", where=self._job, hint="`encamp reap` works without it")
        return record


def wait_until_begun(records: Records, job_id: str, show: Callable[[str], None]) -> None:
    """Wait while a job waits that was handed in, and show its place in the queue as it changes."""
    said = ""
    while (record := records.record(job_id)) is not None and record.waiting:
        now = waits(Submissions(records).position(job_id))
        if now != said:
            said = now
            show(f"the job {now}")
        time.sleep(_POLL_SECONDS)


def waits(position: int) -> str:
    """Return the state of a job that nobody has begun, in words, by its place in the queue."""
    return f"waits until a driver is free: place {position} in the queue" if position else "is about to be begun"


class RecordedStates:
    """The states of a job as its record says them."""

    def __init__(self, records: Records, job_id: str, show: Callable[[str], None]) -> None:
        self._records = records
        self._job = job_id
        self._show = show
        self._known: set[str] = set()

    def look(self) -> None:
        """Show every state that the job has entered since."""
        record = self._records.record(self._job)
        for state in record.times if record is not None else ():
            if state not in self._known:
                self._known.add(state)
                self._show(f"the job is {state}")

    def end(self) -> None:
        """Show the last one."""
        self.look()


class PodLogs:
    """The logs of a job's pods as the cluster gives them; nothing of them is kept here."""

    def __init__(self, cluster: Cluster, intent: Intent, show: Callable[[str, str], None]) -> None:
        self._live = LiveJob(cluster, intent.namespace, intent.name)
        self._opened = ExitStack()
        self._opened.callback(cluster.close)
        self._streams = self._opened.enter_context(self._live.streams(follow=True, show=show))

    def look(self) -> None:
        """Start following the log of every replica that has started since."""
        with suppress(EncampError):
            self._streams.follow(self._live.replicas())

    def end(self) -> None:
        """Wait for what is on its way."""
        self._streams.drain(_DRAIN_SECONDS)
        self._opened.close()


def _results(record: RunRecord) -> int:
    """Return the number of times that the job was torn down, with or without something left."""
    return sum(entry.kind == "receipt" for entry in record.entries)


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"\n  | {line}" for line in lines[-_TAIL_LINES:])
