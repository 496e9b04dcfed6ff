"""One trial in a cluster: its JobSet, its reports, and when these are complete.

A trial is over for its study only when its reports are: a JobSet that has ended may still have lines of its logs on
their way, and event files to be read. For that it is waited a bounded time.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as NotYetError
from datetime import datetime
from typing import TYPE_CHECKING, Any

from encamp.run.store.states import Outcome, State
from encamp.run.studies.host import TrialLook
from encamp.run.watch.watching import ended_at, terminal
from encamp.spec.roles import Role
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from encamp.run.logs.replicas import Replica
    from encamp.run.logs.stream import LogStreams
    from encamp.run.studies.metrics import TrialMetrics
    from encamp.run.watch.watching import JobSetWatch
    from encamp.tuning.model import Measurement

#: Seconds that the logs of an ended trial have to become complete.
_LOG_SECONDS = 10.0
#: Seconds that a look waits for the last reports: mostly they are files of this machine.
_PATIENCE = 0.3
_STATES = {
    State.SUCCEEDED: TrialState.SUCCEEDED,
    State.FAILED: TrialState.FAILED,
    State.CANCELLED: TrialState.CANCELLED,
}


class TrialWatch:
    """The watch over one trial.

    Args:
        replicas: how many it has.
        pool: reads what it reports, so that no look waits for a bucket.
        recover: fetches what its pods' logs lack from where they are kept; asked where a trial that ended well has
            reported nothing and its logs are not whole.

    Attributes:
        stopped: it was told to stop.
        terminal: its JobSet has come to an end of its own.
    """

    def __init__(
        self,
        number: int,
        watch: JobSetWatch,
        metrics: TrialMetrics,
        *,
        replicas: int,
        streams: LogStreams,
        pool: Executor,
        recover: Callable[[], None],
    ) -> None:
        self.number = number
        self.watch = watch
        self._metrics = metrics
        self._replicas = replicas
        self._streams = streams
        self._pool = pool
        self._recover = recover
        self._reading: Future[tuple[Measurement, ...]] | None = None
        self._last: Future[tuple[Measurement, ...]] | None = None
        self._measurements: tuple[Measurement, ...] = ()
        self._started: float | None = None
        self._outcome: Outcome | None = None
        self._over_since: float | None = None
        self.stopped = False
        self.terminal = False

    def look(self, job_set: dict[str, Any], pods: Sequence[dict[str, Any]], now: float) -> TrialLook:
        """Return the trial's state at ``now``, in seconds since the epoch.

        Raises:
            EngineError: the API server gives no answer about what failed.
        """
        self.watch.take(job_set, pods, now)
        self._metrics.since = _time(job_set["metadata"].get("creationTimestamp")) or 0.0
        self.terminal = terminal(job_set) is not None
        if self._started is None and self.watch.started >= self._replicas:
            self._started = now
        if self._outcome is None:
            self._outcome = self.watch.outcome(job_set)
        if self._outcome is None:
            self._read()
            return self._looked(TrialState.RUNNING if self._started is not None else TrialState.PREPARING)
        if not self._said_all():
            return self._looked(TrialState.RUNNING if self._started is not None else TrialState.PREPARING)
        if self._outcome.state is State.FAILED:
            # Now its last lines are here too.
            self._outcome = self.watch.outcome(job_set) or self._outcome
        return self._ended(self._outcome, job_set)

    def gone(self) -> TrialLook:
        """Return the trial's state after its JobSet was deleted."""
        self._read()
        if self.stopped:
            return self._looked(TrialState.CANCELLED)
        return self._looked(TrialState.FAILED, "its JobSet was deleted by somebody else")

    @property
    def ending(self) -> bool:
        """Whether it has ended, or is about to: its master decides."""
        masters = (one for one in self.watch.replicas if one.role == Role.MASTER)
        return self._outcome is not None or any(one.exit_code is not None for one in masters)

    @property
    def logs(self) -> list[str]:
        """Names of its replicas of which there is a log."""
        return sorted({one.name for one in self.watch.seen.values() if one.started})

    @property
    def quiet(self) -> bool:
        """Whether nothing of its replicas' logs is being read any more."""
        return all(map(self._streams.over, self.logs))

    def _ended(self, outcome: Outcome, job_set: dict[str, Any]) -> TrialLook:
        state = _STATES[outcome.state]
        if self.stopped and state is TrialState.FAILED:
            state = TrialState.CANCELLED
        message = outcome.message
        if state is TrialState.SUCCEEDED and not self._measurements:
            message = self._metrics.missing()
        return self._looked(state, message, outcome, ended_at(job_set))

    def _looked(
        self, state: TrialState, message: str = "", outcome: Outcome | None = None, ended: float | None = None
    ) -> TrialLook:
        failure = outcome.failure if outcome is not None else None
        return TrialLook(state, self._measurements, message, failure, self._started, ended)

    def _read(self) -> None:
        """Take the reports that were read, and have more read."""
        if self._reading is not None:
            if not self._reading.done():
                return
            self._measurements = self._reading.result()
        self._reading = self._pool.submit(self._metrics.read)

    def _said_all(self) -> bool:
        """Whether the last reports of a trial that has ended are there."""
        now = time.monotonic()
        if self._over_since is None:
            self._over_since = now
        first = self._last is None
        if self._last is None:
            ended = [one for one in self.watch.replicas if one.exit_code is not None]
            if not all(self._streams.over(one.name) for one in ended) and now - self._over_since < _LOG_SECONDS:
                self._read()
                return False
            whole = all(self._streams.log(one.name).state["complete"] for one in ended)
            self._last = self._pool.submit(self._read_last, self._reading, ended, lost=not (ended and whole))
        try:
            self._measurements = self._last.result(_PATIENCE if first else 0)
        except NotYetError:
            return False
        return True

    def _read_last(
        self, before: Future[tuple[Measurement, ...]] | None, ended: Sequence[Replica], *, lost: bool
    ) -> tuple[Measurement, ...]:
        if before is not None:
            before.result()
        for replica in ended:
            self._metrics.add_termination(replica.termination)
        found = self._metrics.read(last=True)
        if not found and lost and self._outcome is not None and self._outcome.state is State.SUCCEEDED:
            # Its pods are gone with their nodes.
            self._recover()
            found = self._metrics.read(last=True)
        return found


def _time(text: str | None) -> float | None:
    """Return a time of Kubernetes' in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if text else None
