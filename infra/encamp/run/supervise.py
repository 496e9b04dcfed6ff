"""Watches a job's JobSet and pods from PREPARING to its outcome, and enforces its limits.

Status of the master is status of the job (spec 6): the JobSet's own terminal state says so, since its success policy
names the master. What failed is found on the pods, in the words of the bootstrap's termination message.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.run.pending import waiting
from encamp.run.replicas import JOBSET_LABEL, Replica, read_replica
from encamp.run.spool import LAST_LINES
from encamp.run.states import Outcome, ReplicaFailure, State

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.stream import LogStreams

_SIGNAL_BASE = 128
#: Reasons of the bootstrap when the trainer was never started, and what could not be done to its packages.
SET_UP_FAILURES = {"PackageInstallFailed": "installed", "PackageDownloadFailed": "downloaded"}
#: How long a cluster may give no answer (a sleeping laptop, a lost network) before watching is given up.
_OUTAGE_SECONDS = 6 * 3600.0
_PODS_PER_SECOND = 100
_POLL_SECONDS = 1.0
_EXPLAIN_SECONDS = 3.0
#: With what Kubernetes says that a Job ran past its own deadline.
_DEADLINE_REASONS = frozenset({"DeadlineExceeded"})


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
    """

    show: Callable[[str], None]
    entered: Callable[[State], None]
    pools: Callable[[], Sequence[dict[str, Any]]]
    allocatable: Callable[[str], Mapping[str, float]] | None = None


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
        self._said: dict[str, str] = {}
        self._explained = 0.0
        self._waiting: list[str] = []
        self._unreachable_since: float | None = None
        self.seen: dict[str, Replica] = {}

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

    def peek(self) -> tuple[bool, bool]:
        """Whether there is a JobSet, and whether it has ended; begins no stream and shows nothing."""
        job_set = self._cluster.get("jobsets", self._namespace, self._job_set)
        return job_set is not None, job_set is not None and bool(_terminal(job_set))

    def look(self) -> tuple[Outcome | None, int]:
        """Look once: the outcome, if there is one by now, and how many pods there are."""
        job_set = self._cluster.get("jobsets", self._namespace, self._job_set)
        if job_set is None:
            return Outcome(State.FAILED, "the JobSet was deleted by somebody else"), 0
        pods = self._cluster.list("pods", self._namespace, f"{JOBSET_LABEL}={self._job_set}")
        replicas = [replica for replica in map(read_replica, pods) if replica is not None]
        for replica in replicas:
            self._note(replica)
        self._streams.follow(replicas)
        self._enter_running(replicas)
        outcome = self._verdict(job_set)
        if outcome is None:
            self._explain(pods)
        return outcome, len(pods)

    def _note(self, replica: Replica) -> None:
        before = self.seen.get(replica.uid)
        if before is not None and before.exit_code is not None and replica.exit_code is None:
            return
        self.seen[replica.uid] = replica
        if replica.exit_code is not None and (before is None or before.exit_code is None):
            self._streams.log(replica.name).ended(replica)
        words = _words(replica)
        if words and self._said.get(replica.uid) != words:
            self._said[replica.uid] = words
            self._watch.show(f"{replica.name} {words}")

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
        if self._out_of_time():
            return Outcome(State.CANCELLED, self._too_long())
        failure = self._failure(message or "the JobSet failed")
        return Outcome(State.FAILED, _message(failure), failure)

    def _out_of_time(self) -> bool:
        """Whether Kubernetes itself ended the job at its deadline."""
        jobs = self._cluster.list("jobs", self._namespace, f"{JOBSET_LABEL}={self._job_set}")
        conditions = [one for job in jobs for one in job.get("status", {}).get("conditions") or []]
        return any(one.get("type") == "Failed" and one.get("reason") in _DEADLINE_REASONS for one in conditions)

    def _failure(self, message: str) -> ReplicaFailure:
        """The replica that failed first; those that were told to stop failed because of it."""
        failed = [replica for replica in self.seen.values() if replica.failed]
        if not failed:
            return ReplicaFailure("the job", None, message)
        first = min(failed, key=lambda replica: (replica.stopped, replica.exit_code is None, replica.finished))
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

    def _explain(self, pods: list[dict[str, Any]]) -> None:
        if self._clock() - self._explained < _EXPLAIN_SECONDS:
            return
        pending = [pod for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
        if not pending:
            self._waiting = []
            return
        self._explained = self._clock()
        events = self._cluster.list("events", self._namespace, fields="involvedObject.kind=Pod")
        words = waiting(pending, events, self._watch.pools(), _name_of, self._watch.allocatable)
        if words != self._waiting:
            self._waiting = words
            for line in words:
                self._watch.show(line)

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


def _words(replica: Replica) -> str:
    if replica.exit_code is not None:
        reason = f": {replica.reason}" if replica.reason else ""
        if replica.exit_code > _SIGNAL_BASE and replica.stopped:
            return "was stopped"
        return f"exited with {replica.exit_code}{reason}"
    if replica.phase == "Failed":
        return f"failed: {replica.reason}"
    if replica.started:
        return f"runs on {replica.node}" if replica.node else "runs"
    if replica.node:
        return f"starts on {replica.node}"
    return ""


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
