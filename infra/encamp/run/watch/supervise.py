"""Watches a job from PREPARING to its outcome, and enforces its limits."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.run.logs.replicas import JOBSET_LABEL
from encamp.run.store.records import LeaseLostError
from encamp.run.store.states import Outcome, State
from encamp.run.watch.explainer import Explainer
from encamp.run.watch.watching import JobSetWatch

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.logs.replicas import Replica
    from encamp.run.logs.stream import LogStreams

#: Seconds for which a cluster may give no answer (a sleeping laptop, a lost network) before watching is given up.
_OUTAGE_SECONDS = 6 * 3600.0
_PODS_PER_SECOND = 100
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Limits:
    """The limits after which a job is cancelled by itself: seconds; None for no limit. ``replicas`` is their number."""

    max_running_seconds: float
    max_wait_seconds: float | None
    replicas: int


@dataclass
class Watch:
    """The callbacks and inputs of a supervisor.

    Attributes:
        show: gets a line for people.
        entered: called when the job enters RUNNING.
        pools: the cluster's node pools as GKE's API lists them.
        allocatable: what a machine type leaves to pods, see ``pending.waiting``.
        used: called after each look with every pod that the job has had.
    """

    show: Callable[[str], None]
    entered: Callable[[State], None]
    pools: Callable[[], Sequence[dict[str, Any]]]
    allocatable: Callable[[str], Mapping[str, float]] | None = None
    used: Callable[[Iterable[Replica]], None] = lambda _: None

    def explainer(self, cluster: Cluster, namespace: str, clock: Callable[[], float]) -> Explainer:
        """Return the explainer of replicas that do not start."""
        return Explainer(
            cluster, namespace, show=self.show, pools=self.pools, allocatable=self.allocatable, clock=clock
        )


class Supervision(ABC):
    """The supervision of one job's training.

    Args:
        cancelled: set when the job is to be cancelled.
        running_since: seconds on ``clock`` when RUNNING began, for a job that is adopted.
        begun: seconds on ``clock`` since when the job waits for its machines; now, where it is not adopted.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        watch: Watch,
        cancelled: threading.Event,
        running_since: float | None = None,
        begun: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits
        self._watch = watch
        self._cancelled = cancelled
        self._clock = clock
        self._running_since = running_since
        self._begun = clock() if begun is None else begun
        self._unreachable_since: float | None = None

    @property
    @abstractmethod
    def seen(self) -> Mapping[str, Replica]:
        """Every pod that the job has had, by its UID; also those that were replaced by others."""

    @abstractmethod
    def look(self) -> tuple[Outcome | None, int]:
        """Look once: the outcome, if there is one by now, and how many pods there are.

        Raises:
            EngineError: the cluster gives no answer.
        """

    def close(self) -> None:  # noqa: B027 - watching one JobSet takes nothing
        """Release what watching took."""

    def run(self) -> Outcome:
        """Watch until the job has an outcome.

        Raises:
            EngineError: the cluster gave no answer for six hours.
        """
        while True:
            outcome, pause = self.step()
            if outcome is not None:
                return outcome
            self._cancelled.wait(pause)
            if self._cancelled.is_set():
                return Outcome(State.CANCELLED, "cancelled by the user")

    def step(self) -> tuple[Outcome | None, float]:
        """Look once and hold the job to its limits: its outcome, if it has one now, and seconds until the next look.

        Raises:
            LeaseLostError: what is seen cannot be put on record, since another driver has the job.
            EngineError: the cluster gave no answer for six hours.
        """
        pods = 0
        try:
            outcome, pods = self.look()
            self._unreachable_since = None
        except LeaseLostError:
            raise
        except EngineError as error:
            outcome = None
            self._lost(error)
        return outcome or self.overdue(), max(self._pause(), pods / _PODS_PER_SECOND)

    def _pause(self) -> float:
        """Return seconds until the next look at a job of few pods."""
        return _POLL_SECONDS

    def _running(self) -> None:
        """Enter RUNNING, if that has not been."""
        if self._running_since is None:
            self._running_since = self._clock()
            self._watch.entered(State.RUNNING)

    def overdue(self) -> Outcome | None:
        """Return the outcome of a job that waits or runs for too long, None while it does not."""
        now = self._clock()
        if self._running_since is None:
            limit = self._limits.max_wait_seconds
            if limit is not None and now - self._begun > limit:
                return Outcome(State.CANCELLED, f"it did not run within maxWaitTime ({limit:g} s)")
        elif now - self._running_since > self._limits.max_running_seconds:
            return Outcome(State.CANCELLED, self._too_long())
        return None

    def _too_long(self) -> str:
        return f"it ran longer than maxRunningTime ({self._limits.max_running_seconds:g} s)"

    def _lost(self, error: EngineError) -> None:
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
            self._watch.show(f"{error.what}; the job goes on, and watching it is tried again")
        elif now - self._unreachable_since > _OUTAGE_SECONDS:
            raise error


class Supervisor(Supervision):
    """The training of a job of one JobSet."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        job_set: str,
        *,
        limits: Limits,
        streams: LogStreams,
        watch: Watch,
        cancelled: threading.Event,
        running_since: float | None = None,
        begun: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            limits=limits, watch=watch, cancelled=cancelled, running_since=running_since, begun=begun, clock=clock
        )
        self._cluster = cluster
        self._namespace = namespace
        self._job_set = job_set
        self._job = JobSetWatch(cluster, namespace, job_set, streams=streams, show=watch.show)
        self._explainer = watch.explainer(cluster, namespace, clock)

    @property
    def seen(self) -> Mapping[str, Replica]:
        """Every pod that the job has had, by its UID; also those that were replaced by others."""
        return self._job.seen

    def look(self) -> tuple[Outcome | None, int]:
        """Look once: the outcome, if there is one by now, and how many pods there are."""
        job_set = self._cluster.get("jobsets", self._namespace, self._job_set)
        if job_set is None:
            return Outcome(State.FAILED, "the JobSet was deleted by somebody else"), 0
        pods = self._cluster.list("pods", self._namespace, f"{JOBSET_LABEL}={self._job_set}")
        self._job.take(job_set, pods, self._clock())
        self._watch.used(self._job.seen.values())
        if self._job.started >= self._limits.replicas:
            self._running()
        outcome = self._job.outcome(job_set)
        if outcome is None:
            self._explainer.explain([job_set], pods)
        return outcome, len(pods)
