"""The results of a study: in the Job resource, and in files beside the job's logs and receipt.

``trials.json`` has the study and all of its trials, those of the jobs that it resumed among them, so that any machine
can show them and go on. ``tuning.html`` is the same for people.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.extras import TUNING, need
from encamp.plan.access.ownership import job_prefix
from encamp.plan.study import StudyPlan
from encamp.run.store.trial_journal import trials_of
from encamp.run.times import rfc3339
from encamp.spec.job_id import is_job_id
from encamp.tuning.best import loss_of, ranked
from encamp.tuning.model import Trial, TrialState, arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.store.journal import RunRecord

TRIALS = "trials.json"
REPORT = "tuning.html"
VERSION = 1


@dataclass(frozen=True)
class StudyResults:
    """A study and its trials so far.

    Attributes:
        job_id: of the job that it is the study of.
        trials: all of the study by number, those of jobs that it resumes among them.
    """

    job_id: str
    study: StudyPlan
    trials: tuple[Trial, ...]

    @property
    def own(self) -> tuple[Trial, ...]:
        """The trials of this very job."""
        return tuple(trial for trial in self.trials if trial.job_id in {self.job_id, ""})

    @property
    def best(self) -> Trial | None:
        """The best trial of the study, None while none has succeeded with a metric."""
        first = next(iter(ranked(self.study, self.trials)), None)
        return first if first is not None and loss_of(self.study, first) is not None else None

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``trials.json``."""
        return {
            "version": VERSION,
            "jobId": self.job_id,
            "study": self.study.to_json(),
            "trials": [trial.to_json() for trial in self.trials],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StudyResults:
        """Return the results that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is malformed.
        """
        trials = sorted(map(Trial.from_json, data["trials"]), key=lambda trial: trial.number)
        return cls(str(data["jobId"]), StudyPlan.from_json(data["study"]), tuple(trials))


def training_output(results: StudyResults) -> dict[str, Any]:
    """Return ``trainingOutput`` of the Job resource: the job's own trials, best first.

    As on the wire: whole numbers of 64 bits are texts, and what is false or not known is left out.
    """
    trials = [_trial_output(results.study, trial) for trial in ranked(results.study, results.own)]
    return {
        "completedTrialCount": str(completed(results.own)),
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": results.study.metric,
        **({"trials": trials} if trials else {}),
    }


def summary_of(results: StudyResults) -> dict[str, Any]:
    """Return a job's progress with its own trials, and the best of its study, in the receipt's form."""
    own, best = results.own, results.best
    counts = {str(state).lower(): sum(1 for one in own if one.state is state) for state in TrialState if state.ended}
    found: dict[str, Any] = {
        "most": results.study.max_trials,
        "ended": sum(counts.values()),
        **counts,
        "stoppedEarly": sum(1 for one in own if one.stopped_early),
    }
    if best is not None and best.final is not None:
        found["best"] = {"trialId": str(best.number), "metric": best.final.value, "step": best.final.step}
    return found


def completed(trials: Iterable[Trial]) -> int:
    """Return the number of trials that have succeeded."""
    return sum(1 for trial in trials if trial.state is TrialState.SUCCEEDED)


def keep_results(storage: Storage, bucket: str, prefix: str, results: StudyResults) -> None:
    """Write both files at the end of a job; ``prefix`` is ``jobs/<jobId>/``.

    Raises:
        RestError: the bucket took one not.
    """
    keep_trials(storage, bucket, prefix, results)
    storage.upload(bucket, f"{prefix}{REPORT}", page_of(results).encode(), "text/html; charset=utf-8")


def write_results(folder: Path, results: StudyResults) -> None:
    """Write both files into a folder of this machine."""
    (folder / TRIALS).write_text(_text(results))
    (folder / REPORT).write_text(page_of(results))


def page_of(results: StudyResults) -> str:
    """Return the report, one page of HTML.

    Raises:
        UsageError: the extra that draws it is not installed.
    """
    need("tuning", TUNING)
    from encamp.tuning.report import report  # noqa: PLC0415 - whoever only reads results draws nothing

    return report(results.job_id, results.study, results.trials)


def keep_trials(storage: Storage, bucket: str, prefix: str, results: StudyResults) -> None:
    """Write ``trials.json`` anew; ``prefix`` is ``jobs/<jobId>/``.

    Raises:
        RestError: the bucket took it not.
    """
    storage.upload(bucket, f"{prefix}{TRIALS}", _text(results).encode(), "application/json")


def kept_trials(storage: Storage, bucket: str, job_id: str) -> StudyResults | None:
    """Return the last results that ``keep_trials`` wrote; None if none can be read, or they are another job's.

    Raises:
        RestError: the bucket cannot be read.
    """
    text = storage.read(bucket, f"{job_prefix(job_id)}{TRIALS}") if is_job_id(job_id) else None
    try:
        found = StudyResults.from_json(json.loads(text)) if text is not None else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if found is not None and found.job_id == job_id else None


def _text(results: StudyResults) -> str:
    return json.dumps(results.to_json(), separators=(",", ":"))


def _trial_output(study: StudyPlan, trial: Trial) -> dict[str, Any]:
    final = trial.final
    metric = {"trainingStep": str(final.step), "objectiveValue": _double(final.value)} if final is not None else None
    found = {
        "trialId": str(trial.number),
        "hyperparameters": arguments_of(study, trial),
        "startTime": rfc3339(trial.started),
        "endTime": rfc3339(trial.ended),
        "state": str(trial.state),
        "finalMetric": metric,
        "isTrialStoppedEarly": trial.stopped_early or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _double(value: float) -> float | str:
    """Return a number in the JSON of Google's APIs: ``NaN`` and infinities are words."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def recorded_results(record: RunRecord) -> StudyResults | None:
    """Return a study's results from the record; None if the job tunes nothing, or its intent is lost."""
    study = (record.intent or {}).get("study")
    found = StudyPlan.read(study) if study is not None else None
    return StudyResults(record.job_id, found, tuple(trials_of(record.entries))) if found is not None else None
