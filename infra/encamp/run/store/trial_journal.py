"""A study's trials in its job's journal: every change of a trial is an entry, written before the action itself.

The latest entry of a trial counts. What a study goes on from stands in one entry before them, so that it is there whole
or not at all, and so that nothing of the earlier job is needed any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.names import trial_log_name
from encamp.tuning.model import Trial

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from encamp.run.store.intent import Intent
    from encamp.run.store.journal import Entry

#: Kind of the journal's entries about a trial.
TRIAL = "trial"
#: Kind of the entry with the trials of the job that a study goes on from.
RESUMED = "resumed"


def trials_of(entries: Iterable[Entry]) -> list[Trial]:
    """Return every trial of a journal as it was written last, those that were gone on from among them, by number.

    An entry that is no trial tells nothing, as everything in a journal that is not known here.
    """
    found: dict[int, Trial] = {}
    # From the latest backwards: of a trial that was written often, the rest need not be read.
    for data in reversed([data for entry in entries for data in _written(entry)]):
        number = data.get("number") if isinstance(data, dict) else None
        trial = None if isinstance(number, int) and number in found else read_trial(data)
        if trial is not None:
            found.setdefault(trial.number, trial)
    return [found[number] for number in sorted(found)]


def resumed_data(job_id: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the entry of what a study goes on from."""
    return {"job": job_id, "trials": [trial.to_json() for trial in trials]}


def replicas_of(intent: Intent, trials: Iterable[Trial], known: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of every replica of a job: of one that tunes, those of its own trials that ran.

    ``known`` are names of which there is a log all the same: a replica may start before the others of its trial do.
    """
    if intent.study is None:
        return intent.replicas
    own = [trial for trial in trials if trial.job_id == intent.job_id]
    names = [(trial, trial_log_name(trial.number, name)) for trial in own for name in intent.replicas]
    return tuple(name for trial, name in names if trial.started is not None or name in known)


def read_trial(data: object) -> Trial | None:
    """Return a trial from plain data, None if it is malformed."""
    try:
        return Trial.from_json(data)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _written(entry: Entry) -> Sequence[Mapping[str, Any]]:
    if entry.kind == TRIAL:
        return [entry.data]
    trials = entry.data.get("trials") if entry.kind == RESUMED else None
    return trials if isinstance(trials, list) else []
