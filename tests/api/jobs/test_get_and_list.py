"""projects.jobs.get and list: states, trials, pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.world import ENVIRONMENT, World, job

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.store.states import Outcome, State
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from starlette.testclient import TestClient

from tests.api.jobs.service import JOBS, TIME, created, refused

pytestmark = pytest.mark.slow


def test_a_jobs_life_as_it_is_read(http: TestClient, service: World) -> None:
    created(http, "other")
    created(http, "life")
    read = http.get(f"{JOBS}/life").json()
    assert (read["state"], read["jobPosition"]) == ("QUEUED", "2")

    intent = {"environment": ENVIRONMENT, "job": {"trainingInput": {"region": "us-central1"}}}
    lease = service.records.begin("life", service.records.record("life").name, intent, submitted=True)  # type: ignore[union-attr]
    read = http.get(f"{JOBS}/life").json()
    assert read["state"] == "QUEUED"
    assert "jobPosition" not in read
    assert http.get(f"{JOBS}/other").json()["jobPosition"] == "1"

    service.records.move(lease, State.PREPARING)
    read = http.get(f"{JOBS}/life").json()
    assert read["state"] == "PREPARING"
    assert "startTime" not in read

    service.records.move(lease, State.RUNNING)
    read = http.get(f"{JOBS}/life").json()
    assert read["state"] == "RUNNING"
    assert TIME.fullmatch(read["startTime"])
    assert not {"endTime", "errorMessage"} & read.keys()

    service.records.append(lease, "outcome", Outcome(State.FAILED, "The replica master 0 exited.").to_json())
    assert http.get(f"{JOBS}/life").json() == read
    service.records.move(lease, State.FAILED)
    read = http.get(f"{JOBS}/life").json()
    assert (read["state"], read["errorMessage"]) == ("FAILED", "The replica master 0 exited.")
    assert read["endTime"] >= read["startTime"] >= read["createTime"]


def test_a_study_shows_its_trials(http: TestClient, service: World) -> None:
    parameters = (ParameterPlan("units", ParameterType.INTEGER, 1.0, 64.0),)
    study = StudyPlan(
        Goal.MAXIMIZE,
        "accuracy",
        parameters,
        Algorithm.ALGORITHM_UNSPECIFIED,
        4,
        2,
        0,
        True,
        None,
        1,
    )
    lease = service.records.begin("tuned", "n-tuned", {"environment": ENVIRONMENT, "study": study.to_json()})
    told = tuple(Measurement(step, step / 10, 5.0) for step in range(9))
    for state in (TrialState.RUNNING, TrialState.SUCCEEDED):
        final = told[-1] if state is TrialState.SUCCEEDED else None
        trial = Trial(1, {"units": 32}, state, told, final, started=100.0, job_id="tuned")
        service.records.append(lease, "trial", trial.to_json())

    output = http.get(f"{JOBS}/tuned").json()["trainingOutput"]

    assert output == {
        "completedTrialCount": "1",
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": "accuracy",
        "trials": [
            {
                "trialId": "1",
                "hyperparameters": {"units": "32"},
                "startTime": "1970-01-01T00:01:40.000Z",
                "state": "SUCCEEDED",
                "finalMetric": {"trainingStep": "8", "objectiveValue": 0.8},
            }
        ],
    }


def test_jobs_of_the_command_line_are_shown_too(http: TestClient, service: World) -> None:
    written = {"trainingInput": {"region": "us-central1", "workerCount": 2}, "encamp": {"identity": {"mode": "DIRECT"}}}
    service.records.begin("typed", "n-typed", {"environment": ENVIRONMENT, "job": written})
    service.records.begin("elsewhere", "n-else", {"environment": "production", "job": written})

    read = http.get(f"{JOBS}/typed").json()

    assert read["trainingInput"] == {"region": "us-central1", "workerCount": "2"}
    assert read["encamp"] == {"identity": {"mode": "DIRECT"}}
    assert [one["jobId"] for one in http.get(JOBS).json()["jobs"]] == ["typed"]
    refused(http.get(f"{JOBS}/elsewhere"), 404, "NOT_FOUND")
    refused(http.post(JOBS, json=job("elsewhere")), 409, "ALREADY_EXISTS")


def test_lists_are_pages_newest_first(http: TestClient) -> None:
    assert http.get(JOBS).content == b"{}"
    names = [f"j{number:02}" for number in range(23)]
    for name in names:
        created(http, name)

    first = http.get(JOBS).json()
    second = http.get(JOBS, params={"pageToken": first["nextPageToken"]}).json()

    assert [one["jobId"] for one in first["jobs"] + second["jobs"]] == names[::-1]
    assert len(first["jobs"]) == 20
    assert "nextPageToken" not in second
    assert "nextPageToken" not in http.get(JOBS, params={"pageSize": "23"}).json()
    assert http.get(JOBS, params={"filter": "jobId=j22"}).json()["jobs"] == first["jobs"][:1]
    assert http.get(JOBS, params={"filter": "jobId=none"}).content == b"{}"
    refused(http.get(JOBS, params={"pageSize": "-1"}), 400, "INVALID_ARGUMENT")
    refused(http.get(JOBS, params={"pageToken": "x"}), 400, "INVALID_ARGUMENT")
    refused(http.get(JOBS, params={"filter": "x"}), 400, "INVALID_ARGUMENT")
