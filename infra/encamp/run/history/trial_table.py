"""A study's trials as lines for people: a table, best first, and which trial is the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.text import aligned, visible
from encamp.tuning.axes import number_text, short
from encamp.tuning.best import ranked
from encamp.tuning.model import TrialState, arguments_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.run.store.study_results import StudyResults
    from encamp.tuning.model import Trial, Value

_LONGEST_MESSAGE = 80
_LONGEST_VALUE = 24


def trial_table(results: StudyResults, now: float) -> list[str]:
    """Return all trials of the study, best first, under headings; of one that runs the last metric that it told.

    ``now`` in seconds since the epoch is for how long those that run have done so.
    """
    return aligned([headings(results), *rows(results, ranked(results.study, results.trials), now)])


def headings(results: StudyResults) -> tuple[str, ...]:
    """Return the names of the columns; the parameters' own stand as they are."""
    names = (visible(one.name) for one in results.study.parameters)
    job = ("JOB",) if _several(results) else ()
    return ("TRIAL", "STATE", visible(short(results.study.metric)), "STEP", *names, "TIME", *job, "")


def rows(results: StudyResults, trials: Sequence[Trial], now: float) -> list[tuple[str, ...]]:
    """Return a row for each of the trials, under ``headings``."""
    return [_row(results, trial, now) for trial in trials]


def best_line(results: StudyResults) -> str:
    """Return the best trial and its arguments in a line; empty while there is none."""
    best = results.best
    if best is None or best.final is None:
        return ""
    arguments = " ".join(f"--{name}={value}" for name, value in arguments_of(results.study, best).items())
    metric = f"{results.study.metric} {number_text(best.final.value)} at step {best.final.step}"
    return visible(f"best: trial {best.number}, {metric}: {arguments}")


def _row(results: StudyResults, trial: Trial, now: float) -> tuple[str, ...]:
    told = trial.final or (trial.measurements[-1] if trial.measurements else None)
    values = (_value(trial.values[one.name]) if one.name in trial.values else "-" for one in results.study.parameters)
    return (
        str(trial.number),
        f"{trial.state} early" if trial.stopped_early else str(trial.state),
        number_text(told.value) if told is not None else "-",
        str(told.step) if told is not None else "-",
        *values,
        _time(trial, now),
        *((trial.job_id or "-",) if _several(results) else ()),
        visible(short(trial.message, _LONGEST_MESSAGE)),
    )


def _value(value: Value) -> str:
    """Return a value as people read it; the whole of the best one stands below the table, and JSON has all."""
    return number_text(value) if isinstance(value, float) else visible(short(text_of(value), _LONGEST_VALUE))


def _time(trial: Trial, now: float) -> str:
    end = trial.ended if trial.ended is not None or trial.state is not TrialState.RUNNING else now
    return "-" if trial.started is None or end is None else f"{max(0.0, end - trial.started):.0f} s"


def _several(results: StudyResults) -> bool:
    return len({trial.job_id for trial in results.trials}) > 1
