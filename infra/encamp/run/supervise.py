"""Watches a job's JobSet and pods from PREPARING to its outcome, and enforces its limits.

Status of the master is status of the job (spec 6): the JobSet's own terminal state says so, since its success policy
names the master. What failed is found on the pods, in the words of the bootstrap's termination message.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.plan.manifests.failure_policy import PAST_DEADLINE
from encamp.run.attempts import Attempts, words_of
from encamp.run.pending import waiting
from encamp.run.queued import queue_words, waits_in_queue
from encamp.run.replicas import JOBSET_LABEL, Replica, read_replica
from encamp.run.spool import LAST_LINES
from encamp.run.states import Outcome, ReplicaFailure, State

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.stream import LogStreams

#: Reasons of the bootstrap when the trainer was never started, and what could not be done to its packages.
SET_UP_FAILURES = {"PackageInstallFailed": "installed", "PackageDownloadFailed": "downloaded"}
#: How long a cluster may give no answer (a sleeping laptop, a lost network) before watching is given up.
_OUTAGE_SECONDS = 6 * 3600.0
_PODS_PER_SECOND = 100
_POLL_SECONDS = 1.0
_EXPLAIN_SECONDS = 3.0
#: With what Kubernetes says that a Job ran past its own deadline.
_DEADLINE_REASONS = frozenset({"DeadlineExceeded"})
#: And what it says of a replica that ended because it came after the job's deadline.
_LATE = f"failed with exit code {PAST_DEADLINE} "


@dataclass(frozen=True)
class Limits:
    """When a job is cancelled by itself: seconds; None for no limit. ``replicas`` is how many there are."""

    max_running_seconds: float
    max_wait_seconds: float | None
    replicas: int


@dataclass
class Watch:
    """What a supervisor is given to do with what it sees.

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


class Supervisor:
    """One job's training.

    Args:
        cancelled: set when the job is to be cancelled.
        running_since: seconds on ``clock`` when RUNNING began, for a job that is adopted.
        begun: seconds on ``clock`` since when the job waits for its machines; now, where it is not adopted.
    """

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
        self._cluster = cluster
        self._namespace = namespace
        self._job_set = job_set
        self._limits = limits
        self._streams = streams
        self._watch = watch
        self._cancelled = cancelled
        self._clock = clock
        self._running_since = running_since
        self._begun = clock() if begun is None else begun
        self._attempts = Attempts()
        self._restarts: int | None = None
        self._explained = 0.0
        self._waiting: list[str] = []
        self._unreachable_since: float | None = None

    @property
    def seen(self) -> Mapping[str, Replica]:
        """Every pod that the job has had, by its UID; also those that were replaced by others."""
        return self._attempts.seen

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
            EngineError: the cluster gave no answer for six hours.
        """
        pods = 0
        try:
            outcome, pods = self.look()
            self._unreachable_since = None
        except EngineError as error:
            outcome = None
            self._lost(error)
        return outcome or self._overdue(), max(_POLL_SECONDS, pods / _PODS_PER_SECOND)

    def look(self) -> tuple[Outcome | None, int]:
        """Look once: the outcome, if there is one by now, and how many pods there are."""
        job_set = self._cluster.get("jobsets", self._namespace, self._job_set)
        if job_set is None:
            return Outcome(State.FAILED, "the JobSet was deleted by somebody else"), 0
        pods = self._cluster.list("pods", self._namespace, f"{JOBSET_LABEL}={self._job_set}")
        replicas = [replica for replica in map(read_replica, pods) if replica is not None]
        self._say_restarts(job_set)
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        for replica in self._attempts.note(replicas, self._watch.show, now):
            self._streams.log(replica.name).ended(replica)
        self._watch.used(self._attempts.seen.values())
        self._streams.follow(replicas)
        self._enter_running(replicas)
        outcome = self._verdict(job_set) or self._hopeless()
        if outcome is None:
            self._explain(job_set, pods)
        return outcome, len(pods)

    def _say_restarts(self, job_set: dict[str, Any]) -> None:
        """The JobSet's restarts since the last look; a supervisor that adopts a job does not tell those before it."""
        restarts, counted = _restarts(job_set)
        if self._restarts is not None and restarts > self._restarts:
            bound = f" (at most {_most(job_set)})" if counted == restarts else ""
            cause = self._attempts.deciding()
            known = cause is not None and cause.attempt == restarts - 1
            why = f": {cause.name} {words_of(cause)}" if cause is not None and known else ""
            self._watch.show(f"the whole job is started again, restart {restarts}{bound}{why}")
        self._restarts = restarts

    def _enter_running(self, replicas: list[Replica]) -> None:
        if self._running_since is not None:
            return
        if len({replica.name for replica in replicas if replica.started}) >= self._limits.replicas:
            self._running_since = self._clock()
            self._watch.entered(State.RUNNING)

    def _verdict(self, job_set: dict[str, Any]) -> Outcome | None:
        terminal, message = _terminal(job_set) or ("", "")
        if terminal == "Completed":
            return Outcome(State.SUCCEEDED)
        if terminal != "Failed":
            return None
        ends = self._ends_of_jobs()
        for reason, _, limit in ends:
            if reason in _DEADLINE_REASONS:
                return Outcome(
                    State.CANCELLED, f"maxRunningTime is over: the cluster ended it {limit} s after its start"
                )
        if any(_LATE in said for _, said, _ in ends):
            return Outcome(State.CANCELLED, "its deadline had passed when a replica was to go on on another machine")
        # Pods whose machines are gone are forgotten within minutes; what Kubernetes said of them stays.
        said = next((said for _, said, _ in ends if said), "") or message or "the JobSet failed"
        failure = self._failure(self._attempts.deciding(), said)
        tried = int(job_set.get("status", {}).get("restarts") or 0)
        more = (
            f" The whole job had been started again {tried} times before." if tried and tried == _most(job_set) else ""
        )
        return Outcome(State.FAILED, _message(failure) + more, failure)

    def _hopeless(self) -> Outcome | None:
        """Whether a replica ran out of memory, which is permanent (spec 6), but has an exit code of 137 as others too.

        Kubernetes sees the code only and restarts the replica, so who supervises ends the job. Without anybody the
        restarts come to their limits.
        """
        starved = self._attempts.out_of_memory()
        if starved is None:
            return None
        failure = self._failure(starved, "it ran out of memory")
        return Outcome(State.FAILED, _message(failure), failure)

    def _ends_of_jobs(self) -> list[tuple[str, str, int]]:
        """Of each Job of the JobSet that Kubernetes failed: the reason, the message and its own deadline in seconds."""
        jobs = self._cluster.list("jobs", self._namespace, f"{JOBSET_LABEL}={self._job_set}")
        return [
            (one.get("reason", ""), one.get("message", ""), int(job.get("spec", {}).get("activeDeadlineSeconds") or 0))
            for job in jobs
            for one in job.get("status", {}).get("conditions") or []
            if one.get("type") == "Failed"
        ]

    def _failure(self, first: Replica | None, message: str) -> ReplicaFailure:
        """What people are told of the replica that failed."""
        if first is None:
            return ReplicaFailure("the job", None, message)
        # Its last lines may still be on their way.
        self._streams.follow([first])
        log = self._streams.log(first.name)
        deadline = time.monotonic() + 5
        while not log.state["complete"] and time.monotonic() < deadline and first.started:
            time.sleep(0.1)
        told = tuple(map(str, first.termination.get("lastLines", ())))
        # Of a set-up that failed the installer's own words count, and not what encamp says around them.
        lines = told[-LAST_LINES:] if first.reason in SET_UP_FAILURES else log.last_lines() or told
        return ReplicaFailure(first.name, first.exit_code, first.reason or message, lines)

    def _overdue(self) -> Outcome | None:
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

    def _explain(self, job_set: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        if self._clock() - self._explained < _EXPLAIN_SECONDS:
            return
        pending = [pod for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
        queued = waits_in_queue(job_set)
        if not pending and not queued:
            self._waiting = []
            return
        self._explained = self._clock()
        words = queue_words(self._cluster, job_set) if queued else self._words_of_pods(pending)
        if words != self._waiting:
            self._waiting = words
            for line in words:
                self._watch.show(line)

    def _words_of_pods(self, pending: list[dict[str, Any]]) -> list[str]:
        events = self._cluster.list("events", self._namespace, fields="involvedObject.kind=Pod")
        return waiting(pending, events, self._watch.pools(), _name_of, self._watch.allocatable)

    def _lost(self, error: EngineError) -> None:
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
            self._watch.show(f"{error.what}; the job goes on, and watching it is tried again")
        elif now - self._unreachable_since > _OUTAGE_SECONDS:
            raise error


def _terminal(job_set: dict[str, Any]) -> tuple[str, str] | None:
    """The JobSet's terminal state and what it says of it, None while it goes on."""
    status = job_set.get("status", {})
    for condition in status.get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in {"Completed", "Failed"}:
            return status.get("terminalState") or condition["type"], condition.get("message", "")
    return (status["terminalState"], "") if status.get("terminalState") else None


def _restarts(job_set: dict[str, Any]) -> tuple[int, int]:
    """How often the whole job was started again, and how many of these count towards the most that may be."""
    status = job_set.get("status", {})
    restarts = int(status.get("restarts") or 0)
    return restarts, int(status.get("restartsCountTowardsMax", restarts) or 0)


def _most(job_set: dict[str, Any]) -> int:
    """How often the whole job may be started again."""
    return int(job_set.get("spec", {}).get("failurePolicy", {}).get("maxRestarts") or 0)


def _message(failure: ReplicaFailure) -> str:
    """As AI Platform said it (spec 1.5); a set-up that failed is no failure of the training and is told apart."""
    if failure.reason in SET_UP_FAILURES:
        cause = failure.last_lines[-1] if failure.last_lines else failure.reason
        return f"the packages could not be {SET_UP_FAILURES[failure.reason]} on {failure.replica}: {cause}"
    if failure.exit_code is None:
        return f"{failure.replica} failed: {failure.reason}"
    role, _, index = failure.replica.partition("-replica-")
    ran_out = "ran out of memory and " if "out of memory" in failure.reason else ""
    more = f" {failure.reason}" if failure.reason and not ran_out else ""
    return f"The replica {role} {index} {ran_out}exited with a non-zero status of {failure.exit_code}.{more}"


def _name_of(pod: dict[str, Any]) -> str:
    replica = read_replica(pod)
    return replica.name if replica is not None else str(pod["metadata"]["name"])
