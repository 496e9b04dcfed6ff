"""A study as one HTML page: its results, with charts. It opens without a network, and nothing in it runs.

The charts are drawn here and by the template as SVG: a page of a library's has megabytes of its program in it, which
reads names and values that job files and trainers chose.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from encamp.plan.rendering import render_html
from encamp.spec.tuning import Algorithm
from encamp.text import visible
from encamp.tuning import charts
from encamp.tuning.axes import number_text
from encamp.tuning.best import ranked
from encamp.tuning.importance import FEWEST, importance
from encamp.tuning.model import TrialState, arguments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import StudyPlan
    from encamp.tuning.model import Trial
    from encamp.tuning.shapes import Chart

TEMPLATE = "tuning-report.html.j2"


@dataclass(frozen=True)
class Section:
    """Charts under a heading, or why there are none."""

    title: str
    note: str
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class ReportView:
    """The input of the template.

    Attributes:
        facts: name and text, in the order of the page.
        flags: the best trial's values as arguments of a trainer, none while there is no best.
        columns: of the table of trials.
        rows: as many cells each as there are columns, best trial first.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    flags: tuple[str, ...]
    sections: tuple[Section, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def report(job_id: str, study: StudyPlan, trials: Sequence[Trial]) -> str:
    """Return the page of a job's study and of all its trials, as HTML that is XML as well."""
    return render_html(TEMPLATE, report=view(job_id, study, trials), visible=visible)


def view(job_id: str, study: StudyPlan, trials: Sequence[Trial]) -> ReportView:
    """Return the view of a study's page."""
    best_first = ranked(study, trials)
    found = charts.scored(study, best_first)
    best = found.trials[0] if found.trials else None
    columns, rows = _table(study, best_first)
    return ReportView(
        title=f"Tuning of {job_id}",
        facts=_facts(study, trials, best),
        flags=tuple(f"--{name}={text}" for name, text in arguments_of(study, best).items()) if best else (),
        sections=_sections(study, trials, found) if best else (),
        columns=columns,
        rows=rows,
    )


def _facts(study: StudyPlan, trials: Sequence[Trial], best: Trial | None) -> tuple[tuple[str, str], ...]:
    counts = [(state, sum(1 for one in trials if one.state is state)) for state in TrialState]
    early = sum(1 for one in trials if one.stopped_early)
    said = ", ".join(f"{count} {state}" for state, count in counts if count) or "none"
    method = "Bayesian" if study.algorithm is Algorithm.ALGORITHM_UNSPECIFIED else str(study.algorithm)
    facts = [
        ("metric", f"{study.metric}, {study.goal}"),
        ("search", f"{method}, {study.max_parallel_trials} at a time"),
        ("trials", said + (f", {early} of them stopped early" if early else "")),
    ]
    if study.resumes:
        facts.append(("goes on from", study.resumes))
    began, ended = _first(trials), _last(trials)
    if began and ended:
        facts.append(("time", f"{_utc(began)} to {_utc(ended)}"))
    if best is not None and best.final is not None:
        facts.append(("best", f"{number_text(best.final.value)} by trial {best.number}, at step {best.final.step}"))
    return tuple(facts)


def _sections(study: StudyPlan, trials: Sequence[Trial], found: charts.Scored) -> tuple[Section, ...]:
    note = f"{study.metric} of each trial, the line is the best so far; hollow: stopped early, red: failed"
    if found.beyond:
        note += f"; at the edge: {found.beyond} far worse than the others"
    sections = [Section("History", note, (charts.history(found, trials),))]
    if any(len(one.measurements) > 1 for one in found.trials):
        sections.append(Section("Learning curves", f"{study.metric} while each trial trained", (charts.curves(found),)))
    parallel = charts.parallel_coordinates(found)
    sections.append(Section("Parallel coordinates", "a line is a trial, the best ones are darkest", (parallel,)))
    shares = importance(study, trials)
    if shares:
        note = "share of the differences between trials that is due to each parameter alone, by functional ANOVA"
        sections.append(Section("Importance", note, (charts.importance(shares),)))
    else:
        why = f"it takes {FEWEST} trials with different metrics to say which parameters matter"
        sections.append(Section("Importance", why))
    sections.append(Section("Slices", f"{study.metric} over the values of each parameter", charts.slices(found)))
    return tuple(sections)


def _table(study: StudyPlan, best_first: Sequence[Trial]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    names = tuple(one.name for one in study.parameters)
    several = len({one.job_id for one in best_first}) > 1
    columns = ("trial", "state", study.metric, "step", *names, "seconds", *(("job",) if several else ()), "")
    rows = tuple(
        (
            str(one.number),
            f"{one.state}{', stopped early' if one.stopped_early else ''}",
            number_text(one.final.value) if one.final is not None else "",
            str(one.final.step) if one.final is not None else "",
            *(one.arguments.get(name, "") for name in names),
            f"{one.ended - one.started:.0f}" if one.started is not None and one.ended is not None else "",
            *((one.job_id,) if several else ()),
            one.message,
        )
        for one in best_first
    )
    return columns, rows


def _first(trials: Sequence[Trial]) -> float | None:
    return min((one.created for one in trials if one.created), default=None)


def _last(trials: Sequence[Trial]) -> float | None:
    return max((one.ended for one in trials if one.ended is not None), default=None)


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
