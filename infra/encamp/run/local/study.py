"""A study on this machine: the same steps as in the cloud, with trials that are processes here.

What is known of it lies in a folder of its own. Ctrl-C ends it, and so does a kill; the same command goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.duration import seconds_of
from encamp.errors import ExitCode
from encamp.extras import TUNING, need
from encamp.retries import SHORT
from encamp.run.history.trial_table import best_line, trial_table
from encamp.run.local.runner import on_signals
from encamp.run.local.study_record import StudyRecord, earlier_trials
from encamp.run.local.trials import LocalTrials
from encamp.run.store.states import Outcome, State
from encamp.run.store.study_results import StudyResults, write_results
from encamp.run.studies.loop import Study
from encamp.tuning.methods import search_for
from encamp.tuning.stopping import unpromising

if TYPE_CHECKING:
    from encamp.cloud.storage import Storage
    from encamp.duration import Duration
    from encamp.run.local.console import RunConsole
    from encamp.run.local.model import LocalRunOptions
    from encamp.run.local.slots import Slots

#: Seconds between looks at trials while none ends.
_LOOK_SECONDS = 0.5
_SHELL_SIGNAL = 128
_REMOTE = "gs://"


async def run_study(
    slots: Slots, options: LocalRunOptions, console: RunConsole, results: Path, *, family: str | None = None
) -> int:
    """Run a study to its end, from the main thread.

    Args:
        slots: where its trials run.
        options: how each trial's replicas are treated; the time limit is the whole study's.
        console: the listener.
        results: folder of the results of all jobs; this one's are kept in a folder of its id.
        family: mark that all processes carry, where a guardian watches over them.

    Returns:
        0 if a trial has succeeded and the study is done, 1 where it failed or its time was up, 128 + n where this
        process got the signal n.

    Raises:
        UsageError: what tuning needs is not installed, another command runs the same study, or there is another one in
            its folder.
    """
    need("tuning", TUNING)
    job_id, study = slots.job.plan.job_id, slots.study
    folder = results / job_id
    earlier = earlier_trials(results, study)
    with (
        StudyRecord(folder, study, job_id, earlier) as record,
        tempfile.TemporaryDirectory(prefix="encamp-study-") as own,
    ):
        if record.trials:
            console.note(f"the study goes on from {len(record.trials)} trials")
        each = replace(options, max_running_time=None)
        storage = _storage(slots.job.plan.storage.job_dir)
        host = LocalTrials(slots, each, console, Path(own), family=family, storage=storage)
        loop = asyncio.get_running_loop()

        def show(text: str) -> None:
            loop.call_soon_threadsafe(console.note, text)

        driver = Study(
            study,
            search_for(study),
            host,
            job_id=job_id,
            trials=record.trials,
            keep=record.keep,
            unpromising=partial(unpromising, study),
            show=show,
        )
        try:
            code = await _LocalStudy(driver, host, console, options.max_running_time).run()
        finally:
            await host.close()
        found = StudyResults(job_id, study, tuple(driver.trials))
        write_results(folder, found)
    lines = [line for line in (*trial_table(found, time.time()), best_line(found)) if line]
    console.text("\n".join(["", *lines, f"results      {folder}"]))
    return code


class _LocalStudy:
    """Drives a study in a thread beside the trials, so that neither waits for the other."""

    def __init__(self, study: Study, host: LocalTrials, console: RunConsole, longest: Duration | None) -> None:
        self._study = study
        self._host = host
        self._console = console
        self._longest = longest
        self._signal: int | None = None

    async def run(self) -> int:
        """Run the study to its end and return the command's exit code."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._longest.seconds if self._longest is not None else None
        told: Outcome | None = None
        with on_signals(self._interrupted):
            while True:
                end = self._end() if deadline is None or loop.time() < deadline else self._too_long()
                if end is not None and told is None:
                    told = end
                    await asyncio.to_thread(self._study.stop, end)
                outcome = await asyncio.to_thread(self._study.advance)
                if outcome is not None:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._host.changed.wait(), _LOOK_SECONDS)
                self._host.changed.clear()
        if self._signal is not None:
            return _SHELL_SIGNAL + self._signal
        # The driver's last output comes before this message.
        await asyncio.sleep(0)
        if outcome.state is not State.SUCCEEDED:
            self._console.note(f"the study is {outcome.state}: {outcome.message}")
        return ExitCode.OK if outcome.state is State.SUCCEEDED else ExitCode.JOB_FAILED

    def _interrupted(self, number: int) -> None:
        if self._signal is None:
            self._signal = number
            self._console.note(f"{signal.Signals(number).name}: the study is ended")
        self._host.interrupt()
        self._host.changed.set()

    def _end(self) -> Outcome | None:
        return None if self._signal is None else Outcome(State.CANCELLED, signal.Signals(self._signal).name)

    def _too_long(self) -> Outcome:
        return self._end() or Outcome(
            State.CANCELLED, f"it has run for {seconds_of(self._longest)} s, the longest that it may"
        )


def _storage(job_dir: str | None) -> Storage | None:
    """Return Cloud Storage, where a job's trainers write there themselves."""
    if job_dir is None or not job_dir.startswith(_REMOTE):
        return None
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415 - most studies need none of it
    from encamp.cloud.storage import Storage  # noqa: PLC0415

    return Storage(GoogleClient(policy=SHORT.at_most(2)))
