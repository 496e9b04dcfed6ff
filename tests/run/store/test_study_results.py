"""What a study has come to: as the Job resource shows it, and as the bucket keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.results.receipt import KeptResults, build_receipt, receipt_text
from encamp.run.store.journal import Entry, RunRecord
from encamp.run.store.states import State
from encamp.run.store.study_results import (
    StudyResults,
    keep_results,
    keep_trials,
    kept_trials,
    training_output,
    write_results,
)
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

STUDY = StudyPlan(
    goal=Goal.MINIMIZE,
    metric="loss",
    parameters=(
        ParameterPlan("batch-size", ParameterType.DISCRETE, values=(16.0, 32.0)),
        ParameterPlan("rate", ParameterType.DOUBLE, 0.0, 1.0),
    ),
    algorithm=Algorithm.ALGORITHM_UNSPECIFIED,
    max_trials=4,
    max_parallel_trials=2,
    max_failed_trials=0,
    early_stopping=True,
    resumes=None,
    seed=1,
)


def trial(number: int, state: TrialState = TrialState.SUCCEEDED, value: float | None = None, **more: Any) -> Trial:
    found = Measurement(10 * number, value, 5.0) if value is not None else None
    plain = Trial(number, {"batch-size": 32.0, "rate": 0.1}, state, final=found, started=1.0, ended=2.5, job_id="tune")
    return replace(plain, **more)


RESULTS = StudyResults(
    "tune",
    STUDY,
    (
        trial(1, value=0.5, job_id="earlier"),
        trial(2, value=0.4),
        trial(3, TrialState.FAILED, message="it reported no metric 'loss'"),
        trial(4, value=0.2, stopped_early=True),
        trial(5, TrialState.RUNNING, ended=None),
    ),
)


def test_the_job_resource_has_the_jobs_own_trials_best_first_and_large_numbers_as_texts() -> None:
    output = training_output(RESULTS)
    assert output["completedTrialCount"] == "2"
    assert output["isHyperparameterTuningJob"] is True
    assert output["hyperparameterMetricTag"] == "loss"
    assert [one["trialId"] for one in output["trials"]] == ["4", "2", "3", "5"]
    assert output["trials"][0] == {
        "trialId": "4",
        "hyperparameters": {"batch-size": "32", "rate": "0.1"},
        "startTime": "1970-01-01T00:00:01.000Z",
        "endTime": "1970-01-01T00:00:02.500Z",
        "state": "SUCCEEDED",
        "finalMetric": {"trainingStep": "40", "objectiveValue": 0.2},
        "isTrialStoppedEarly": True,
    }
    assert {"finalMetric", "isTrialStoppedEarly"}.isdisjoint(output["trials"][2])
    assert "endTime" not in output["trials"][3]


def test_a_study_without_trials_has_none() -> None:
    output = training_output(StudyResults("tune", STUDY, ()))
    assert output["completedTrialCount"] == "0"
    assert "trials" not in output


@pytest.mark.parametrize(
    ("value", "word"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (-float("inf"), "-Infinity")]
)
def test_a_metric_that_is_no_number_is_a_word_in_json(value: float, word: str) -> None:
    output = training_output(StudyResults("tune", STUDY, (trial(1, value=value),)))
    assert json.loads(json.dumps(output, allow_nan=False))["trials"][0]["finalMetric"]["objectiveValue"] == word


def test_the_best_trial_is_one_that_succeeded_with_a_metric() -> None:
    best = RESULTS.best
    assert best is not None
    assert best.number == 4
    assert StudyResults("tune", STUDY, RESULTS.trials[2:3]).best is None
    assert StudyResults("tune", STUDY, (trial(1, value=float("nan")),)).best is None


def test_kept_trials_are_read_back_as_they_were(google: Any, client: GoogleClient) -> None:
    google.add_bucket("artifacts")
    storage = Storage(client)
    keep_trials(storage, "artifacts", "jobs/tune/", RESULTS)
    assert kept_trials(storage, "artifacts", "tune") == RESULTS
    assert json.loads(google.objects["artifacts", "jobs/tune/trials.json"])["version"] == 1


def test_the_end_of_a_job_keeps_the_page_beside_the_trials(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    google.add_bucket("artifacts")
    keep_results(Storage(client), "artifacts", "jobs/tune/", RESULTS)
    page = google.objects["artifacts", "jobs/tune/tuning.html"].decode()
    assert "<h1>Tuning of tune</h1>" in page
    write_results(tmp_path, RESULTS)
    assert (tmp_path / "tuning.html").read_text() == page
    assert (tmp_path / "trials.json").read_bytes() == google.objects["artifacts", "jobs/tune/trials.json"]


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b'{"trials": 3}', b'{"jobId": "a", "trials": [{}]}', b"[[" * 5000]
)
def test_what_is_no_kept_study_is_none(google: Any, client: GoogleClient, content: bytes | None) -> None:
    google.add_bucket("artifacts")
    if content is not None:
        google.objects["artifacts", "jobs/tune/trials.json"] = content
    assert kept_trials(Storage(client), "artifacts", "tune") is None


def test_a_receipt_counts_the_trials_and_names_the_best() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    entries = tuple(Entry(at, "trial", one.to_json()) for one in RESULTS.trials)
    record = RunRecord("tune", "n", at, State.SUCCEEDED, {}, {"study": STUDY.to_json()}, entries=entries)
    kept = KeptResults(None, "gs://b/jobs/tune/")
    receipt = build_receipt(
        record, steps=(), seconds={}, digests={}, hourly={}, prices_of=None, logs={}, left=(), kept=kept, gone=at
    )
    assert receipt["trials"] == {
        "most": 4,
        "ended": 3,
        "succeeded": 2,
        "failed": 1,
        "cancelled": 0,
        "stoppedEarly": 1,
        "best": {"trialId": "4", "metric": 0.2, "step": 40},
    }
    text = receipt_text(receipt)
    assert "trials       2 succeeded, 1 failed, 1 stopped early, of 4\n" in text
    assert "best         trial 4, 0.2 at step 40\n" in text
    plain = replace(record, intent={}, entries=())
    assert "trials" not in build_receipt(
        plain, steps=(), seconds={}, digests={}, hourly={}, prices_of=None, logs={}, left=(), kept=kept, gone=at
    )
