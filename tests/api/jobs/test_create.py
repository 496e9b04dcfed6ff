"""projects.jobs.create: what is kept of a job, and which are refused."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.world import DEVELOPER, World, job

if TYPE_CHECKING:
    from starlette.testclient import TestClient

from tests.api.jobs.service import JOBS, TIME, created, refused, violations

pytestmark = pytest.mark.slow


def test_a_new_job_is_queued(http: TestClient, service: World) -> None:
    made = created(http, "census", labels={"team": "vision"})

    assert TIME.fullmatch(made.pop("createTime"))
    assert len(base64.b64decode(made.pop("etag"), validate=True)) == 8
    assert made == {**job("census"), "labels": {"team": "vision"}, "state": "QUEUED", "trainingOutput": {}}
    assert service.told.woken == 1


def test_what_was_sent_comes_back_in_googles_spelling(http: TestClient) -> None:
    training = {
        "scale_tier": "CUSTOM",
        "master_type": "n1-standard-8",
        "master_config": {"accelerator_config": {"count": 2, "type": "NVIDIA_TESLA_T4"}},
        "worker_type": "n1-standard-8",
        "worker_count": 3,
        "package_uris": ["gs://my-bucket/t.tar.gz"],
        "python_module": "t.task",
        "region": "us-central1",
        "runtime_version": "2.11",
        "python_version": "3.7",
        "enable_web_access": False,
        "hyperparameters": {
            "goal": "MINIMIZE",
            "max_trials": 4,
            "params": [{"parameter_name": "lr", "type": "DOUBLE", "min_value": 0.5, "max_value": 1}],
        },
    }
    sent = {"job_id": "spelled", "training_input": training, "state": "SUCCEEDED", "create_time": "x", "etag": 5}

    made = http.post(JOBS, json=sent).json()

    assert made["state"] == "QUEUED"
    assert made["trainingInput"] == {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-8",
        "masterConfig": {"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}},
        "workerType": "n1-standard-8",
        "workerCount": "3",
        "packageUris": ["gs://my-bucket/t.tar.gz"],
        "pythonModule": "t.task",
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "enableWebAccess": False,
        "hyperparameters": {
            "goal": "MINIMIZE",
            "maxTrials": 4,
            "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.5, "maxValue": 1}],
        },
    }


def test_a_secret_is_the_drivers_alone(http: TestClient, service: World) -> None:
    sent = job("signed")
    sent["trainingInput"]["args"] = ["--data", "https://host/x?X-Goog-Signature=cafebabe"]

    made = http.post(JOBS, json=sent)

    assert made.json()["trainingInput"]["args"][1] == "https://host/x?X-Goog-Signature=[secret]"
    assert service.submissions.opened("signed")["trainingInput"]["args"][1].endswith("=cafebabe")
    service.audit.close()
    written = [path.read_bytes() for path in service.folder.rglob("*") if path.is_file()]
    assert not any(b"cafebabe" in text for text in written)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"jobId": None}, "job_id"),
        ({"jobId": ""}, "job_id"),
        ({"jobId": 5}, "job_id"),
        ({"jobId": "9x"}, "job_id"),
        ({"jobId": "a" * 129}, "job_id"),
        ({"jobId": "a/../b"}, "job_id"),
        ({"trainingInput": None}, "training_input"),
        ({"trainingInput": []}, "training_input"),
        ({"trainingInput": "x"}, "training_input"),
        ({"predictionInput": {}}, "prediction_input"),
        ({"labels": {"A": "b"}}, "labels.A"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": []}, "labels"),
        ({"colour": "red"}, "colour"),
        ({"encamp": {"packagePath": "/etc"}}, "encamp.package_path"),
        ({"encamp": {"packages": ["x.whl"]}}, "encamp.packages"),
        ({"encamp": {"package_path": "../x"}}, "encamp.package_path"),
    ],
)
def test_a_job_that_is_wrong_is_not_created(
    sent: TestClient, standing: World, change: dict[str, Any], field: str
) -> None:
    answer = sent.post(JOBS, json=job("wrong") | change)

    message = refused(answer, 400, "INVALID_ARGUMENT")
    assert field in violations(answer)
    assert message.startswith("Field: ")
    assert [record.job_id for record in standing.records.records()] == ["kept"]


def test_a_given_account_is_for_who_may_act_as_it(http: TestClient, standing: World) -> None:
    body = job("borrowed")
    body["trainingInput"]["serviceAccount"] = "owner@sandbox-encamp.iam.gserviceaccount.com"

    answer = http.post(JOBS, json=body, headers={"authorization": f"Bearer {DEVELOPER}"})

    assert "iam.serviceAccounts.actAs" in refused(answer, 403, "PERMISSION_DENIED")
    assert standing.records.record("borrowed") is None


def test_advice_is_for_who_is_elsewhere(sent: TestClient) -> None:
    wrong = job("wrong")
    del wrong["trainingInput"]["packageUris"]

    found = violations(sent.post(JOBS, json=wrong))

    assert found["training_input.package_uris"].endswith("try: upload a package, and name it by its gs:// address")


def test_fields_of_a_training_input_at_the_top_are_no_job(sent: TestClient) -> None:
    answer = sent.post(JOBS, json={"jobId": "bare", **job("bare")["trainingInput"]})

    refused(answer, 400, "INVALID_ARGUMENT")
    assert list(violations(answer)) == ["training_input"]
