"""A job's journal: what its entries look like, and the record that they make.

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

from encamp.run.states import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CANCEL = "cancel"
_STATES = frozenset(State)


@dataclass(frozen=True)
class Entry:
    """One line of a job's journal."""

    at: datetime
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class CancelRequest:
    """Somebody wants a job cancelled: when it was first asked for, and by whom."""

    at: datetime
    by: str


@dataclass(frozen=True)
class RunRecord:
    """A job as its journal tells it.

    Attributes:
        intent: what was to be created, under which labels, where, until when; None where it was adopted without.
        times: when each state began.
        outcome: how the training ended, known before tear-down begins.
        torn_down: whether it was proven that nothing is left.
        cancel: the first request to cancel it, None where nobody asked.
        entries: those that are whole.
        damaged: journal entries that could not be read and were left out.
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


def digest(kind: str, text: str) -> str:
    """What tells a whole entry from one that was written in part or changed."""
    return hashlib.sha256(f"{kind}\n{text}".encode(errors="surrogateescape")).hexdigest()


def entry_of(at: object, kind: object, text: object, fingerprint: object) -> Entry | None:
    """An entry as the database gave it, None where it is not whole."""
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
    """A job's record from its entries in the order of the journal, None for one that is not whole."""
    listed = list(found)
    entries = tuple(entry for entry in listed if entry is not None)
    states = [(State(entry.data["state"]), entry.at) for entry in entries if _is_state(entry)]
    return RunRecord(
        job_id=job_id,
        name=name,
        created=created,
        state=states[-1][0] if states else State.QUEUED,
        times=dict(states),
        intent=_latest(entries, "intent", dict),
        outcome=_latest(entries, "outcome", _outcome),
        receipt=_latest(entries, "receipt", dict),
        torn_down=any(entry.kind == "gone" for entry in entries),
        cancel=first_request(entries),
        entries=entries,
        damaged=len(listed) - len(entries),
    )


def first_request(entries: Iterable[Entry | None]) -> CancelRequest | None:
    """The first whole request to cancel."""
    asked = (entry for entry in entries if entry is not None and entry.kind == CANCEL)
    return next((CancelRequest(entry.at, str(entry.data.get("by", ""))) for entry in asked), None)


def last_state(entries: Iterable[Entry | None]) -> State:
    """The state that the entries come to."""
    states = [entry.data["state"] for entry in entries if entry is not None and _is_state(entry)]
    return State(states[-1]) if states else State.QUEUED


def time_of(seconds: float) -> datetime:
    """Seconds since the epoch as a time, UTC; the epoch itself where no calendar has the time."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _is_state(entry: Entry) -> bool:
    return entry.kind == "state" and entry.data.get("state") in _STATES


def _latest(entries: tuple[Entry, ...], kind: str, read: Callable[[dict[str, Any]], Any]) -> Any:
    """The latest entry of a kind that can be read."""
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
