"""The record of a study of this machine: one file that every trial is written to the end of, each time it changes.

Whoever runs the same study again goes on from it, however the command before it ended. One command at a time has it.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.plan.study import StudyPlan
from encamp.run.history.earlier_trials import differences
from encamp.run.store.trial_journal import read_trial
from encamp.spec.job_id import is_job_id
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from encamp.tuning.model import Trial

_FILE = "study.jsonl"
_JOB_ID = "--job-id"
_RESUMES = "trainingInput.hyperparameters.resumePreviousJobId"


class StudyRecord:
    """A study's trials; a context manager that holds the record for itself.

    Args:
        folder: of the study; made where it is missing.
        study: of a job with the id ``job_id``.
        job_id: of the job.
        earlier: what a new study goes on from.

    Raises:
        UsageError: the folder cannot be written, has another study, or another command has it.
    """

    def __init__(self, folder: Path, study: StudyPlan, job_id: str, earlier: tuple[Trial, ...] = ()) -> None:
        self._path = folder / _FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UsageError(
                f"another command runs the study of {folder}", where=_JOB_ID, hint="wait for it, or choose another id"
            ) from None
        except OSError as error:
            raise UsageError(f"{str(folder)!r} cannot be written: {error.strerror}", where=_JOB_ID) from error
        if self._path.read_bytes()[-1:] not in {b"", b"\n"}:
            # A killed command left a line half written.
            self._file.write(b"\n")
        found, known = read_record(folder)
        if found is not None:
            try:
                check_same(found, study, where=_JOB_ID, hint=f"choose another id, or remove {folder}")
            except UsageError:
                self._file.close()
                raise
        #: The trials that are on record at the start.
        self.trials = [_again(trial, job_id) for trial in known]
        if found is None:
            self._write({"study": study.to_json()})
            for trial in earlier:
                self._write(trial.to_json())
            self.trials = list(earlier)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def keep(self, trial: Trial) -> None:
        """Put a trial as it is now on record."""
        self._write(trial.to_json())

    def _write(self, data: dict[str, Any]) -> None:
        self._file.write(json.dumps(data, separators=(",", ":")).encode() + b"\n")
        self._file.flush()


def read_record(folder: Path) -> tuple[StudyPlan | None, list[Trial]]:
    """Return a study and its trials by number, as they were written last; none if there is no record."""
    study: StudyPlan | None = None
    trials: dict[int, Trial] = {}
    try:
        lines = (folder / _FILE).read_bytes().splitlines()
    except OSError:
        return None, []
    for line in lines:
        data = _read(line)
        if study is None and "study" in data:
            study = StudyPlan.read(data["study"])
        elif (trial := read_trial(data)) is not None:
            trials[trial.number] = trial
    return study, [trials[number] for number in sorted(trials)]


def earlier_trials(results: Path, study: StudyPlan) -> tuple[Trial, ...]:
    """Return the ended trials of the job that a study resumes, run on this machine too; none if it resumes none.

    Args:
        results: folder with a folder for each job.
        study: what goes on.

    Raises:
        UsageError: nothing is known of that job here, or it was another study.
    """
    if study.resumes is None:
        return ()
    before, trials = read_record(results / study.resumes) if is_job_id(study.resumes) else (None, [])
    ended = tuple(trial for trial in trials if trial.state.ended)
    if before is None or not ended:
        raise UsageError(
            f"no trials of {study.resumes!r} are known on this machine",
            where=_RESUMES,
            hint=f"name a job whose study is kept in {results}, or leave it out",
        )
    check_same(
        before, study, where=_RESUMES, hint="a study goes on with what it began with; leave it out for a new one"
    )
    return ended


def check_same(before: StudyPlan, study: StudyPlan, *, where: str, hint: str) -> None:
    """Refuse to go on with a study that searches for something else; where and how much is tried may differ.

    Raises:
        UsageError: saying what differs.
    """
    others = [what for what, _, _ in differences(before, study)]
    if _named(before) != _named(study):
        others.append("params")
    if others:
        raise UsageError(f"the study that is there has other {others[0]} than the job file", where=where, hint=hint)


def _named(study: StudyPlan) -> set[tuple[str, str]]:
    return {(one.name, str(one.type)) for one in study.parameters}


def _again(trial: Trial, job_id: str) -> Trial:
    """Return a trial that did not come to its end, to be begun again: nothing of it runs any more."""
    over = trial.state.ended and trial.state is not TrialState.CANCELLED
    if over or trial.stopped_early or trial.job_id != job_id:
        return trial
    return replace(trial, state=TrialState.PREPARING, measurements=(), final=None, message="", started=None, ended=None)


def _read(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
