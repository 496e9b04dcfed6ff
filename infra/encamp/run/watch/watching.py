"""A watch over one JobSet: the progress of its replicas, and its outcome.

Status of the master is status of the job (spec 6): the JobSet's own terminal state says so, since its success policy
names the master. What failed is found on the pods, in the words of the bootstrap's termination message.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.plan.manifests.failure_policy import EQUAL_ENDS, PAST_DEADLINE, SOON_SECONDS
from encamp.run.logs.last_words import requirement_hint
from encamp.run.logs.replicas import INDEX_LABEL, JOBSET_LABEL, ROLE_LABEL, Replica, read_replica, replica_labels
from encamp.run.logs.spool import LAST_LINES
from encamp.run.store.states import Outcome, ReplicaFailure, State
from encamp.run.watch.attempts import Attempts, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.logs.stream import LogStreams

#: Reasons of the bootstrap when the trainer was never started, and what could not be done to its packages.
SET_UP_FAILURES = {"PackageInstallFailed": "installed", "PackageDownloadFailed": "downloaded"}
#: With what Kubernetes says that a Job ran past its own deadline.
_DEADLINE_REASONS = frozenset({"DeadlineExceeded"})
#: The bootstrap's word for a replica that ended because it started after the job's deadline.
_LATE = f"failed with exit code {PAST_DEADLINE} "
_LOG_SECONDS = 5.0


class JobSetWatch:
    """The watch over one JobSet.

    Args:
        show: gets a line for people.
        called: its name for people.
        patience: how many seconds a failed replica's log may take to come to its end before its last lines are told.

    Attributes:
        replicas: its pods at the last look.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        *,
        streams: LogStreams,
        show: Callable[[str], None],
        called: str = "the whole job",
        patience: float = _LOG_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._streams = streams
        self._show = show
        self._called = called
        self._patience = patience
        self._attempts = Attempts()
        self._restarts: int | None = None
        self.replicas: list[Replica] = []

    @property
    def seen(self) -> Mapping[str, Replica]:
        """Every pod that it has had, by its UID; also those that were replaced by others."""
        return self._attempts.seen

    @property
    def started(self) -> int:
        """The number of replicas that run or have run."""
        return len({replica.name for replica in self.replicas if replica.started})

    def take(self, job_set: dict[str, Any], pods: Sequence[dict[str, Any]], now: float) -> None:
        """Take what the API server has of it at ``now``, in seconds since the epoch, and say what is new."""
        self.replicas = [replica for replica in map(read_replica, pods) if replica is not None]
        self._say_restarts(job_set)
        stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        for replica in self._attempts.note(self.replicas, self._show, stamp):
            self._streams.log(replica.name).ended(replica)
            self._say_restart(job_set, replica)
        self._streams.follow(self.replicas)

    def outcome(self, job_set: dict[str, Any]) -> Outcome | None:
        """Return the outcome, None while the job goes on.

        Raises:
            EngineError: the API server gives no answer about what failed.
        """
        return self._verdict(job_set) or self._unstartable() or self._repeating()

    def _say_restarts(self, job_set: dict[str, Any]) -> None:
        """Report the JobSet's restarts since the last look.

        A supervisor that adopts a job leaves out those before it.
        """
        restarts, counted = _restarts(job_set)
        if self._restarts is not None and restarts > self._restarts:
            bound = f" (at most {_most(job_set)})" if counted == restarts else ""
            cause = self._attempts.deciding()
            known = cause is not None and cause.attempt == restarts - 1
            why = f": {cause.name} {words_of(cause)}" if cause is not None and known else ""
            self._show(f"{self._called} is started again, restart {restarts}{bound}{why}")
        self._restarts = restarts

    def _say_restart(self, job_set: dict[str, Any], replica: Replica) -> None:
        """Report a replica's end and the restart that follows, if Kubernetes starts it again."""
        most = _restarts_left(job_set, replica)
        restart = self._attempts.restarts(replica)
        if most is not None and restart <= most:
            self._show(
                f"RUNNING, restart {restart} of {most}, last: {replica.name} {words_of(replica)}; "
                "Kubernetes waits before a restart, each time for longer"
            )

    def _verdict(self, job_set: dict[str, Any]) -> Outcome | None:
        end, message = terminal(job_set) or ("", "")
        if end == "Completed":
            return Outcome(State.SUCCEEDED)
        if end != "Failed":
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
            f" {self._called.capitalize()} had been started again {tried} times before."
            if tried and tried == _most(job_set)
            else ""
        )
        return Outcome(State.FAILED, _message(failure) + more, failure)

    def _unstartable(self) -> Outcome | None:
        """Whether a replica ran out of memory, which is permanent (spec 6), but has an exit code of 137 as others too.

        Kubernetes sees the code only and restarts the replica, so who supervises ends the job. Without anybody the
        restarts come to their limits.
        """
        starved = self._attempts.out_of_memory()
        if starved is None:
            return None
        failure = self._failure(starved, "it ran out of memory")
        return Outcome(State.FAILED, _message(failure), failure)

    def _repeating(self) -> Outcome | None:
        """Whether a replica comes to the same end time and again, so that starting the whole job anew would be vain."""
        stuck = self._attempts.repeating()
        if stuck is None:
            return None
        failure = self._failure(stuck, "")
        again = f"It ended so {EQUAL_ENDS} times in a row, each time within {SOON_SECONDS} s of its start"
        return Outcome(State.FAILED, f"{_message(failure)} {again}, and is not started again.", failure)

    def _ends_of_jobs(self) -> list[tuple[str, str, int]]:
        """Return reason, message and deadline in seconds of each Job of the JobSet that Kubernetes failed."""
        jobs = self._cluster.list("jobs", self._namespace, f"{JOBSET_LABEL}={self._name}")
        return [
            (one.get("reason", ""), one.get("message", ""), int(job.get("spec", {}).get("activeDeadlineSeconds") or 0))
            for job in jobs
            for one in job.get("status", {}).get("conditions") or []
            if one.get("type") == "Failed"
        ]

    def _failure(self, first: Replica | None, message: str) -> ReplicaFailure:
        """Return the account of the replica that failed, for people."""
        if first is None:
            return ReplicaFailure("the job", None, message)
        # Its last lines may still be on their way.
        self._streams.follow([first])
        log = self._streams.log(first.name)
        deadline = time.monotonic() + self._patience
        while not log.state["complete"] and time.monotonic() < deadline and first.started:
            time.sleep(0.1)
        told = tuple(map(str, first.termination.get("lastLines", ())))
        # If the set-up failed, the installer's own words count, not encamp's around them.
        lines = told[-LAST_LINES:] if first.reason in SET_UP_FAILURES else log.last_lines() or told
        unexplained = message if first.exit_code is None else ""
        return ReplicaFailure(first.name, first.exit_code, first.reason or unexplained, lines)


def terminal(job_set: dict[str, Any]) -> tuple[str, str] | None:
    """Return the JobSet's terminal state and what it says of it, None while it goes on."""
    state = job_set.get("status", {}).get("terminalState")
    condition = _last_condition(job_set)
    if condition is not None:
        return state or condition["type"], condition.get("message", "")
    return (state, "") if state else None


def ended_at(job_set: dict[str, Any]) -> float | None:
    """Return when the JobSet ended, in seconds since the epoch; None if it does not say."""
    at = (_last_condition(job_set) or {}).get("lastTransitionTime")
    return datetime.fromisoformat(at).timestamp() if at else None


def _last_condition(job_set: dict[str, Any]) -> dict[str, Any] | None:
    """Return the condition that says how it ended, None while it goes on."""
    for condition in job_set.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in {"Completed", "Failed"}:
            return dict(condition)
    return None


def _restarts(job_set: dict[str, Any]) -> tuple[int, int]:
    """Return the number of restarts of the whole job, and of those that count towards the limit."""
    status = job_set.get("status", {})
    restarts = int(status.get("restarts") or 0)
    return restarts, int(status.get("restartsCountTowardsMax", restarts) or 0)


def _restarts_left(job_set: dict[str, Any], replica: Replica) -> int | None:
    """Return the number of restarts that a replica with such an end may have in all, None if it is not restarted."""
    if not replica.failed or replica.excused or replica.out_of_memory:
        return None
    for group in job_set.get("spec", {}).get("replicatedJobs") or []:
        if group.get("name") == replica.role:
            job = group["template"]["spec"]
            rules = (job.get("podFailurePolicy") or {}).get("rules") or []
            codes = (rule.get("onExitCodes", {}).get("values", ()) for rule in rules)
            return None if any(replica.exit_code in listed for listed in codes) else job.get("backoffLimitPerIndex")
    return None


def _most(job_set: dict[str, Any]) -> int:
    """Return the largest number of restarts of the whole job."""
    return int(job_set.get("spec", {}).get("failurePolicy", {}).get("maxRestarts") or 0)


def _message(failure: ReplicaFailure) -> str:
    """Return AI Platform's message (spec 1.5); a failed set-up is no failure of the training and is told apart."""
    if failure.reason in SET_UP_FAILURES:
        cause = failure.last_lines[-1] if failure.last_lines else failure.reason
        return f"the packages could not be {SET_UP_FAILURES[failure.reason]} on {failure.replica}: {cause}"
    if failure.exit_code is None:
        return f"{failure.replica} failed: {failure.reason}"
    labels = replica_labels(failure.replica)
    role, index = labels[ROLE_LABEL], labels[INDEX_LABEL]
    ran_out = "ran out of memory and " if "out of memory" in failure.reason else ""
    hint = requirement_hint(failure.reason)
    more = f" {failure.reason}{f'; {hint}' if hint else ''}" if failure.reason and not ran_out else ""
    return f"The replica {role} {index} {ran_out}exited with a non-zero status of {failure.exit_code}.{more}"
