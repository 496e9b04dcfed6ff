"""``encamp trials``: the trials of a tuning job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import FORMAT
from encamp.cli.known import JOB, looking
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from encamp.jobs.opening import Looking
    from encamp.run.store.study_results import StudyResults
    from encamp.tuning.model import Trial

#: How often a job that is watched is looked at.
_POLL_SECONDS = 2.0
#: Of a table whose later rows are not known yet: states and numbers fit.
_NARROWEST, _STATE = 9, len("SUCCEEDED early")


@click.command()
@JOB
@click.option("--watch", is_flag=True, help="Print each trial that changes, until the job has ended.")
@click.option(
    "--report",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts, one HTML file that opens without a network.",
)
@ENVIRONMENT
@FORMAT
def command(job: str, environment: str, output: str, *, watch: bool, page: Path | None) -> None:
    """Show the trials of JOB, an id, best first: while it runs and after its end, on any machine.

    A running trial is shown with its last metric. JSON has every measurement; with --watch it has one line for each
    trial that is new or has changed.
    """
    with looking(environment) as jobs:
        results, ended = _look(jobs, job)
        screen = _Json(watch=watch) if output == "json" else _Text(watch=watch)
        screen.begin(results)
        while watch and not ended:
            time.sleep(_POLL_SECONDS)
            before = {trial.number: trial for trial in results.trials}
            results, ended = _look(jobs, job)
            for trial in results.trials:
                if before.get(trial.number) != trial:
                    screen.changed(results, trial)
        screen.end(results)
    if page is not None:
        from encamp.run.store.study_results import page_of  # noqa: PLC0415 - charts take a second to load

        _write(page, page_of(results))


def _look(jobs: Looking, job: str) -> tuple[StudyResults, bool]:
    """A job's study, and whether the job has ended.

    Raises:
        UsageError: it has none.
    """
    from encamp.errors import UsageError  # noqa: PLC0415 - `--help` needs none of it
    from encamp.run.history.known_study import study_results  # noqa: PLC0415
    from encamp.run.store.states import EXIT_CODES  # noqa: PLC0415

    known = jobs.catalogue.job(job)
    found = study_results(known, jobs.storage)
    if found is None:
        raise UsageError(
            "it has no trials: the job tunes nothing, or nothing of its study is known here yet",
            where=job,
            hint=f"`encamp describe {job}` says what it is",
        )
    return found, known.state in EXIT_CODES


def _write(page: Path, text: str) -> None:
    from encamp.errors import UsageError  # noqa: PLC0415 - `--help` needs none of it

    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error.strerror}", where=str(page)) from error
    say(f"report: {page}", err=True)


class _Text:
    """A table; watched, a line for each trial that changes below it, and at the end which is the best."""

    def __init__(self, *, watch: bool) -> None:
        self._watch = watch
        self._widths: list[int] = []

    def begin(self, results: StudyResults) -> None:
        from encamp.run.history.trial_table import headings, rows  # noqa: PLC0415
        from encamp.text import column_widths, row_text  # noqa: PLC0415
        from encamp.tuning.best import ranked  # noqa: PLC0415

        table = [headings(results), *rows(results, ranked(results.study, results.trials), time.time())]
        self._widths = column_widths(table)
        if self._watch:
            self._widths = [max(width, _STATE if at == 1 else _NARROWEST) for at, width in enumerate(self._widths)]
        for row in table:
            say(row_text(row, self._widths))

    def changed(self, results: StudyResults, trial: Trial) -> None:
        from encamp.run.history.trial_table import rows  # noqa: PLC0415
        from encamp.text import row_text  # noqa: PLC0415

        for row in rows(results, [trial], time.time()):
            say(row_text(row, self._widths))

    def end(self, results: StudyResults) -> None:
        from encamp.run.history.trial_table import best_line  # noqa: PLC0415

        if line := best_line(results):
            say(line)


class _Json:
    """One document; watched, a line for each trial."""

    def __init__(self, *, watch: bool) -> None:
        self._watch = watch

    def begin(self, results: StudyResults) -> None:
        for trial in results.trials if self._watch else ():
            self.changed(results, trial)

    def changed(self, results: StudyResults, trial: Trial) -> None:
        del results
        say_json(trial.to_json(), indent=None)

    def end(self, results: StudyResults) -> None:
        from encamp.tuning.best import ranked  # noqa: PLC0415

        if self._watch:
            return
        best_first = [trial.to_json() for trial in ranked(results.study, results.trials)]
        best = results.best.number if results.best is not None else None
        say_json({**results.to_json(), "best": best, "trials": best_first})
