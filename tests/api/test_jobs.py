"""The methods of jobs: what each answers, and what it leaves in the record."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.api.world import ADMIN, DEVELOPER, ENVIRONMENT, PROJECT, VIEWER, World, job, world

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.states import Outcome, State
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
JOBS = f"/v1/projects/{PROJECT}/jobs"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For tests that leave nothing behind."""
    with world(tmp_path_factory.mktemp("standing")) as found:
        yield found


@pytest.fixture(scope="module")
def sent(standing: World) -> Iterator[TestClient]:
    with client(standing) as found:
        created(found, "kept", labels={"a": "b"})
        yield found


@pytest.fixture
def http(service: World) -> Iterator[TestClient]:
    with client(service) as found:
        yield found


def client(service: World, token: str = ADMIN) -> TestClient:
    headers = {"authorization": f"Bearer {token}"}
    return TestClient(service.app, headers=headers, raise_server_exceptions=False)


def created(http: TestClient, job_id: str, **more: Any) -> dict[str, Any]:
    answer = http.post(JOBS, json=job(job_id, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: Any, code: int, status: str) -> str:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (code, code, status)
    return str(error["message"])


def violations(answer: Any) -> dict[str, str]:
    (details,) = answer.json()["error"]["details"]
    assert details["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    return {one["field"]: one["description"] for one in details["fieldViolations"]}


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


def test_labels_change_and_nothing_else(http: TestClient) -> None:
    made = created(http, "patched", labels={"team": "vision", "old": "1"})
    url = f"{JOBS}/patched?updateMask=labels"

    changed = http.patch(url, json={"labels": {"team": "speech"}, "state": "SUCCEEDED", "jobId": "other"}).json()

    assert changed["labels"] == {"team": "speech"}
    assert changed["etag"] != made["etag"]
    assert {key for key in made if made[key] != changed[key]} == {"labels", "etag"}
    assert http.get(f"{JOBS}/patched").json() == changed
    assert "labels" not in http.patch(url, json={"labels": {}}).json()
    assert http.patch(f"{JOBS}/patched?updateMask=labels", json={"labels": {"b": "c"}}).json()["labels"] == {"b": "c"}
    assert "labels" not in http.patch(url, json={}).json()


def test_an_update_of_what_others_changed_is_refused(http: TestClient) -> None:
    made = created(http, "raced")
    mask = {"updateMask": "labels,etag"}
    first = http.patch(f"{JOBS}/raced", params=mask, json={"labels": {"a": "1"}, "etag": made["etag"]})

    second = http.patch(f"{JOBS}/raced", params=mask, json={"labels": {"a": "2"}, "etag": made["etag"]})

    assert first.json()["labels"] == {"a": "1"}
    refused(second, 409, "ABORTED")
    assert http.get(f"{JOBS}/raced").json() == first.json()
    kept = http.patch(f"{JOBS}/raced", params={"updateMask": "etag"}, json={"etag": first.json()["etag"]})
    assert kept.json() == first.json()


@pytest.mark.parametrize(
    ("mask", "body", "field"),
    [
        (None, {"labels": {}}, "update_mask"),
        ("", {"labels": {}}, "update_mask"),
        ("*", {"labels": {}}, "update_mask"),
        ("labels,state", {"labels": {}}, "update_mask"),
        ("trainingInput.region", {}, "update_mask"),
        ("labels.a", {"labels": {"a": "b"}}, "update_mask"),
        ("labels", {"labels": ["a"]}, "labels"),
        ("labels", {"labels": {"Big": "b"}}, "labels.Big"),
        ("labels", {"labels": {str(n): "b" for n in range(65)}}, "labels"),
        ("labels", {"labels": {}, "colour": "red"}, "colour"),
        ("labels", {"labels": {}, "etag": "not base64!"}, "etag"),
        ("labels", {"labels": {}, "etag": 5}, "etag"),
        ("labels,etag", {"labels": {}}, "etag"),
    ],
)
def test_an_update_that_is_wrong_changes_nothing(
    sent: TestClient, mask: str | None, body: dict[str, Any], field: str
) -> None:
    before = sent.get(f"{JOBS}/kept").json()

    answer = sent.patch(f"{JOBS}/kept", params={} if mask is None else {"updateMask": mask}, json=body)

    refused(answer, 400, "INVALID_ARGUMENT")
    assert list(violations(answer))[:1] == [field]
    assert sent.get(f"{JOBS}/kept").json() == before


def test_a_job_that_waits_is_cancelled_at_once(http: TestClient, service: World) -> None:
    created(http, "waiting")

    assert http.post(f"{JOBS}/waiting:cancel", json={}).content == b"{}"

    read = http.get(f"{JOBS}/waiting").json()
    assert (read["state"], read["errorMessage"]) == ("CANCELLED", "ada@example.com cancelled it before it had begun")
    assert service.submissions.claim(ENVIRONMENT) is None
    message = refused(http.post(f"{JOBS}/waiting:cancel"), 400, "FAILED_PRECONDITION")
    assert message == "The job waiting has ended: it is CANCELLED."


def test_a_job_that_runs_is_asked_to_end(http: TestClient, service: World) -> None:
    created(http, "running")
    name = service.submissions.open(ENVIRONMENT)[0].name
    service.records.begin("running", name, {"environment": ENVIRONMENT}, submitted=True)
    service.records.begin("typed", "n-typed", {"environment": ENVIRONMENT})

    for job_id in ("running", "typed"):
        assert http.post(f"{JOBS}/{job_id}:cancel", json={}).json() == {}
        assert http.post(f"{JOBS}/{job_id}:cancel", json={}).json() == {}
        request = service.records.cancel_requested(job_id)
        assert request is not None
        assert request.by == "ada@example.com"

    # The dispatcher looks after what was handed in; what was not, somebody has to take over.
    assert service.told.adopted == ["typed", "typed"]
    refused(http.post(f"{JOBS}/running:cancel", json={"force": True}), 400, "INVALID_ARGUMENT")


def test_who_may_not_see_a_job_learns_nothing_of_it(service: World, http: TestClient) -> None:
    created(http, "there")
    with client(service, DEVELOPER) as dev:
        denied = refused(dev.post(f"{JOBS}/there:cancel", json={}), 403, "PERMISSION_DENIED")
        assert "'ml.jobs.cancel' denied on resource" in denied
        refused(dev.get(f"{JOBS}/nobody"), 404, "NOT_FOUND")
        mine = created(dev, "mine")
        assert dev.post(f"{JOBS}/{mine['jobId']}:cancel", json={}).json() == {}
    with client(service, VIEWER) as vic:
        assert vic.get(f"{JOBS}/there").status_code == 200
        refused(vic.post(JOBS, json=job("new")), 403, "PERMISSION_DENIED")
        refused(vic.post(JOBS, json={"no": "job"}), 403, "PERMISSION_DENIED")
        refused(vic.patch(f"{JOBS}/there?updateMask=labels", json={}), 403, "PERMISSION_DENIED")
        refused(vic.get(f"{JOBS}/there:getIamPolicy"), 403, "PERMISSION_DENIED")
        assert vic.post(f"{JOBS}/nobody:testIamPermissions", json={"permissions": ["ml.jobs.get"]}).json() == {}
    for wrong in ("", "Bearer nobody", "Basic YTpi"):
        answer = TestClient(service.app).get(JOBS, headers={"authorization": wrong} if wrong else {})
        refused(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_the_project_is_this_one(sent: TestClient) -> None:
    assert sent.get("/v1/projects/123456789/jobs").status_code == 200
    for other in ("other", "1234567890", "sandbox-encamp%20", "-"):
        refused(sent.get(f"/v1/projects/{other}/jobs"), 403, "PERMISSION_DENIED")


def test_policies_are_kept_and_told(http: TestClient, service: World) -> None:
    created(http, "shared")
    url = f"{JOBS}/shared"
    before = http.get(f"{url}:getIamPolicy").json()
    assert list(before) == ["etag"]
    bindings = [{"role": "roles/ml.jobOwner", "members": ["user:vic@example.com"]}]

    after = http.post(f"{url}:setIamPolicy", json={"policy": {"bindings": bindings}}).json()

    assert after == {"version": 1, "bindings": bindings, "etag": after["etag"]}
    assert after["etag"] != before["etag"]
    stale = {"policy": {"bindings": bindings, "etag": before["etag"]}}
    refused(http.post(f"{url}:setIamPolicy", json=stale), 409, "ABORTED")
    refused(http.post(f"{url}:setIamPolicy", json={"policy": 5}), 400, "INVALID_ARGUMENT")
    with client(service, VIEWER) as vic:
        assert vic.get(f"{url}:getIamPolicy").json() == after
        assert vic.post(f"{url}:cancel", json={}).json() == {}
    refused(http.get(f"{url}:getIamPolicy?options.requestedPolicyVersion=7"), 400, "INVALID_ARGUMENT")


def test_every_call_is_in_the_audit_log(http: TestClient, service: World) -> None:
    created(http, "audited")
    http.post(JOBS, json=job("audited", labels={"other": "body"}))
    http.get(f"{JOBS}/nobody")
    TestClient(service.app).post(f"{JOBS}/audited:cancel", json={})
    http.get("/nothing")
    http.get(f"{JOBS}/audited?fields=(")
    service.audit.close()

    entries = [json.loads(line)["protoPayload"] for line in (service.folder / "audit.jsonl").read_text().splitlines()]

    told = [
        (one["methodName"].rpartition(".")[2], one["resourceName"], one["status"].get("code", 0)) for one in entries
    ]
    here = f"projects/{PROJECT}/jobs"
    assert told == [
        ("CreateJob", f"{here}/audited", 0),
        ("CreateJob", f"{here}/audited", 6),
        ("GetJob", f"{here}/nobody", 5),
        ("CancelJob", f"{here}/audited", 16),
        ("GetJob", f"{here}/audited", 3),
    ]
    assert entries[0]["response"]["jobId"] == "audited"
    assert [one["authorizationInfo"][0]["granted"] for one in entries[:1]] == [True]


def test_a_bug_is_no_answer(http: TestClient, service: World, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret-of-a-bug")

    service.index.job = broken  # type: ignore[method-assign]

    answer = http.get(f"{JOBS}/any")

    assert refused(answer, 500, "INTERNAL") == "Internal error encountered."
    assert "secret-of-a-bug" not in answer.text
    assert "secret-of-a-bug" in caplog.text


def test_answers_are_json_of_the_asked_form(http: TestClient) -> None:
    made = created(http, "formed")

    whole = http.get(f"{JOBS}/formed?prettyPrint=true&$.xgafv=2&alt=media&key=x")
    assert whole.text.startswith('{\n  "jobId": "formed"')
    assert whole.headers["content-type"] == "application/json; charset=UTF-8"
    assert whole.headers["x-content-type-options"] == "nosniff"
    partial = http.get(f"{JOBS}/formed?fields=etag,trainingInput/region").json()
    assert partial == {"etag": made["etag"], "trainingInput": {"region": "us-central1"}}
    head = http.head(f"{JOBS}/formed")
    assert (head.status_code, head.content) == (200, b"")
    wrong = http.delete(f"{JOBS}/formed")
    refused(wrong, 405, "UNIMPLEMENTED")
    assert wrong.headers["allow"] == "GET, PATCH"
    override = {"x-http-method-override": "PATCH"}
    assert http.post(f"{JOBS}/formed?updateMask=labels", json={"labels": {"a": "b"}}, headers=override).json()["labels"]
