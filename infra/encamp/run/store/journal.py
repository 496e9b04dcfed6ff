"""A job's journal: the form of its entries, and the record that they fold into.

Entries are only ever added. One that was written in part, or changed since, has a digest that does not fit; it is left
out and counted. What a later version of encamp wrote is kept as it is: kinds and states that are not known here tell
nothing here, and nothing fails because of them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.run.store.old_intents import intent_data
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CANCEL = "cancel"
#: Kinds of entries of jobs that were handed in: what was asked for, and what may change of it later.
SUBMITTED, LABELS, POLICY = "submitted", "labels", "policy"
#: Entry of a driver that was told to end and let go of its job, from which whoever comes next goes on.
LEFT = "left"
#: Entry of an attempt to bring the job up that is followed by another.
RETRY = "retry"
#: Entry of a driver that goes on with such a job.
RESUMED = "resumed"
_STATES = frozenset(State)


@dataclass(frozen=True)
class Entry:
    """One line of a job's journal."""

    at: datetime
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class CancelRequest:
    """A request to cancel a job: when it was first made, and by whom."""

    at: datetime
    by: str


@dataclass(frozen=True)
class Submitted:
    """A submission: a job for another process to begin.

    Attributes:
        environment: name of the environment's stack.
        job: the Job resource as it was sent, without secrets of a known form.
        by: the submitter; may be empty.
        priority: larger ones are begun first.
    """

    at: datetime
    environment: str
    job: dict[str, Any]
    by: str
    priority: int


@dataclass(frozen=True)
class RunRecord:
    """A job as its journal tells it.

    Attributes:
        intent: what was to be created, under which labels, where, until when, as ``Intent.read`` reads it; None if it
            was adopted without.
        times: when each state began.
        outcome: how the training ended, known before tear-down begins.
        torn_down: whether it was proven that nothing is left.
        cancel: the first request to cancel it, None if nobody asked.
        entries: those that are whole.
        damaged: journal entries that could not be read and were left out.
        submitted: None if a driver began it without anybody handing it in.
        labels: the latest ones, None if they were never changed.
        policy: the latest IAM policy of its own, None if it never had one.
        label_changes, policy_changes: how often each was changed.
        left: whether its driver was told to end and let go of it, and nobody has gone on with it since.
    """

    job_id: str
    name: str
    created: datetime
    state: State
    times: dict[State, datetime] = field(default_factory=dict)
    intent: dict[str, Any] | None = None
    outcome: Outcome | None = None
    receipt: dict[str, Any] | None = None
    torn_down: bool = False
    cancel: CancelRequest | None = None
    entries: tuple[Entry, ...] = ()
    damaged: int = 0
    submitted: Submitted | None = None
    labels: dict[str, str] | None = None
    policy: dict[str, Any] | None = None
    label_changes: int = 0
    policy_changes: int = 0
    left: bool = False

    @property
    def waiting(self) -> bool:
        """Whether it was handed in and nobody has begun it."""
        return self.submitted is not None and self.intent is None and not self.damaged and self.state is State.QUEUED

    @property
    def environment(self) -> str | None:
        """Name of its environment's stack, None if what says so is lost."""
        if self.intent is not None and "environment" in self.intent:
            return str(self.intent["environment"])
        return self.submitted.environment if self.submitted is not None else None


def state_data(state: State, at: datetime | None = None) -> dict[str, Any]:
    """Return data of an entry that a state began, ``at`` where that was before the entry is written."""
    return {"state": str(state), **({"at": at.isoformat(timespec="milliseconds")} if at is not None else {})}


def digest(kind: str, text: str) -> str:
    """Return the digest that tells a whole entry from one that was written in part or changed."""
    return hashlib.sha256(f"{kind}\n{text}".encode(errors="surrogateescape")).hexdigest()


def entry_of(at: object, kind: object, text: object, fingerprint: object) -> Entry | None:
    """Return an entry as the database gave it, None if it is not whole."""
    if not (isinstance(at, int | float) and isinstance(kind, str) and isinstance(text, str)):
        return None
    try:
        if digest(kind, text) != fingerprint:
            return None
        data = json.loads(text)
        return Entry(time_of(at), kind, data) if isinstance(data, dict) else None
    except (ValueError, OverflowError, OSError, RecursionError):
        return None


def fold(job_id: str, name: str, created: datetime, found: Iterable[Entry | None]) -> RunRecord:
    """Return a job's record from its entries in the order of the journal, None for one that is not whole."""
    listed = list(found)
    entries = tuple(entry for entry in listed if entry is not None)
    states = [(State(entry.data["state"]), _began(entry)) for entry in entries if _is_state(entry)]
    return RunRecord(
        job_id=job_id,
        name=name,
        created=created,
        state=states[-1][0] if states else State.QUEUED,
        times=dict(states),
        intent=_latest(entries, "intent", intent_data),
        outcome=_latest(entries, "outcome", _outcome),
        receipt=_latest(entries, "receipt", dict),
        torn_down=any(entry.kind == "gone" for entry in entries),
        cancel=first_request(entries),
        entries=entries,
        damaged=len(listed) - len(entries),
        submitted=_submitted(entries),
        labels=_latest(entries, LABELS, _labels),
        policy=_latest(entries, POLICY, _policy),
        label_changes=sum(entry.kind == LABELS for entry in entries),
        policy_changes=sum(entry.kind == POLICY for entry in entries),
        left=next((entry.kind == LEFT for entry in reversed(entries) if entry.kind in {LEFT, RESUMED}), False),
    )


def first_request(entries: Iterable[Entry | None]) -> CancelRequest | None:
    """Return the first whole request to cancel."""
    asked = (entry for entry in entries if entry is not None and entry.kind == CANCEL)
    return next((CancelRequest(entry.at, str(entry.data.get("by", ""))) for entry in asked), None)


def last_state(entries: Iterable[Entry | None]) -> State:
    """Return the state that the entries come to."""
    states = [entry.data["state"] for entry in entries if entry is not None and _is_state(entry)]
    return State(states[-1]) if states else State.QUEUED


def time_of(seconds: float) -> datetime:
    """Return seconds since the epoch as a time, UTC; the epoch itself where no calendar has the time."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _is_state(entry: Entry) -> bool:
    return entry.kind == "state" and entry.data.get("state") in _STATES


def _began(entry: Entry) -> datetime:
    """Return when a state began: the entry's own time, if it was written later than that."""
    try:
        told = datetime.fromisoformat(entry.data["at"])
        return min(told, entry.at)
    except (KeyError, TypeError, ValueError):
        return entry.at


def _latest(entries: tuple[Entry, ...], kind: str, read: Callable[[dict[str, Any]], Any]) -> Any:
    """Return the latest entry of a kind that can be read."""
    for entry in reversed(entries):
        if entry.kind == kind:
            try:
                return read(entry.data)
            except (KeyError, TypeError, ValueError):
                continue
    return None


def _outcome(data: dict[str, Any]) -> Outcome:
    outcome = Outcome.from_json(data)
    if not outcome.state.ended:
        raise ValueError(outcome.state)
    return outcome


def _submitted(entries: tuple[Entry, ...]) -> Submitted | None:
    """Return the first entry that says what was handed in."""
    for entry in entries:
        data = entry.data
        if entry.kind == SUBMITTED and isinstance(data.get("job"), dict) and data.get("environment"):
            by, priority = data.get("by"), data.get("priority")
            return Submitted(
                at=entry.at,
                environment=str(data["environment"]),
                job=data["job"],
                by=str(by or ""),
                priority=priority if isinstance(priority, int) else 0,
            )
    return None


def _labels(data: dict[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in data["labels"].items()}


def _policy(data: dict[str, Any]) -> dict[str, Any]:
    return dict(data["policy"])
