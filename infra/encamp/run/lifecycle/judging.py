"""Whether a job without a living driver is over, and how it ended: the rules, without any cloud.

In this order: an outcome that is on record stands; a JobSet that has ended says its own; a request to cancel, then the
deadline, ends what has not; a job that its driver let go of before it had a JobSet is brought up further; one whose
JobSet or cluster is gone has failed. All else trains.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from encamp.run.engine.stack_state import StackState
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import CancelRequest, RunRecord

#: Seconds that a stack brought up by hand may exist without a JobSet: its `up` failed, and may be repeated.
BY_HAND_SECONDS = 3600.0
#: Seconds after its deadline that a job is waited for if its cluster gives no answer: it may have succeeded.
UNREACHABLE_SECONDS = 3600.0
#: Seconds that an ended JobSet is left to a driver that the record here may not know of.
ELSEWHERE_SECONDS = 3600.0


class Seen(Enum):
    """The state of a job in its cluster."""

    RUNS = "its JobSet runs"
    ENDED = "its JobSet has ended"
    NO_JOB_SET = "it has no JobSet"
    NO_CLUSTER = "its cluster is gone"
    UNKNOWN = "its cluster gives no answer"


@dataclass(frozen=True)
class Facts:
    """The facts about a job that decide its end.

    Attributes:
        record: its record, or None.
        state: of its stack, where no record told of the job.
        ended: when its JobSet ended, in seconds since the epoch, where it did and says so.
        alone: no driver can be at work on it that the record here does not know.
        cancel: the first request to cancel it.
        gone_but_listed: the record says that it is gone, and the cloud lists things of it.
    """

    seen: Seen
    record: RunRecord | None
    state: StackState | None = None
    ended: float | None = None
    alone: bool = True
    cancel: CancelRequest | None = None
    gone_but_listed: bool = False


@dataclass(frozen=True)
class Judgement:
    """The decision about a job.

    Attributes:
        over: it is to be brought to its end; else it is left alone or supervised on.
        outcome: how it ended; None if its replicas have to be asked, or where it is not over.
        trains: its JobSet runs, so that it can be supervised on.
        prepares: nothing of it is lost, and it can be brought up further.
        why: in plain words.
    """

    over: bool
    why: str
    outcome: Outcome | None = None
    trains: bool = False
    prepares: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether it is not over, and can be taken over."""
        return self.trains or self.prepares


OVER, LEFT = True, False


def judge(intent: Intent, facts: Facts, now: float) -> Judgement:
    """Judge a job by the rules above; ``now`` in seconds since the epoch."""
    late = now > intent.deadline
    known = _known(facts)
    if known is not None:
        return known
    if facts.record is None and not facts.alone and not late and not _long_over(facts, now):
        return Judgement(LEFT, f"no record here; another machine's driver may have it, until {_utc(intent.deadline)}")
    return _seen(intent, facts, now)


def _seen(intent: Intent, facts: Facts, now: float) -> Judgement:
    """Judge by the job's state in its cluster."""
    if facts.seen is Seen.ENDED:
        return Judgement(OVER, "its training has ended")
    if facts.seen is Seen.UNKNOWN and now < intent.deadline + UNREACHABLE_SECONDS:
        return Judgement(LEFT, facts.seen.value)
    if facts.cancel is not None or now > intent.deadline:
        why = "its deadline has passed" if facts.cancel is None else f"{facts.cancel.by} cancelled it"
        return Judgement(OVER, why, Outcome(State.CANCELLED, why))
    if facts.seen is Seen.RUNS:
        why = f"it still trains, and may until {_utc(intent.deadline)}; `encamp reap --wait` supervises it"
        return Judgement(LEFT, why, trains=True)
    return _without_job_set(facts, now, "its JobSet" if intent.study is None else "its study")


def _known(facts: Facts) -> Judgement | None:
    """Judge a job whose outcome is on record."""
    outcome = facts.record.outcome if facts.record is not None else None
    if facts.gone_but_listed:
        why = "its record says that it is gone, but the cloud lists it"
        return Judgement(OVER, why, outcome or _failed(why))
    if outcome is not None:
        return Judgement(OVER, "its driver died after the training had ended", outcome)
    return None


def _without_job_set(facts: Facts, now: float, what: str) -> Judgement:
    if facts.seen is Seen.NO_CLUSTER:
        return Judgement(OVER, facts.seen.value, _failed(facts.seen.value))
    record, state = facts.record, facts.state
    if record is None and state is not None and not state.outputs:
        if not state.has_pending and now - state.written < BY_HAND_SECONDS:
            until = _utc(state.written + BY_HAND_SECONDS)
            return Judgement(LEFT, f"its `pulumi up` did not come to its end, and may be repeated until {until}")
        why = "its `pulumi up` died before the training began"
        return Judgement(OVER, why, _failed(why))
    began = record is None or record.state is State.RUNNING or State.RUNNING in record.times
    if record is not None and record.left and not began:
        return Judgement(LEFT, "its driver was ended while it was being prepared; `encamp reap` goes on", prepares=True)
    why = f"{what} is gone" if began else "its driver died before the training began"
    return Judgement(OVER, why, _failed(why))


def _long_over(facts: Facts, now: float) -> bool:
    return facts.seen is Seen.ENDED and facts.ended is not None and now - facts.ended > ELSEWHERE_SECONDS


def _failed(why: str) -> Outcome:
    return Outcome(State.FAILED, why)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(seconds, _LAST)))


#: The last second of the year 9999: intents may have no deadline at all.
_LAST = 253_402_300_799.0
