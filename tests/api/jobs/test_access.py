"""Who may see a job, policies, the audit log, and answers to faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.jobs.service import JOBS, client, created, refused
from tests.api.world import DEVELOPER, PROJECT, VIEWER, World, job

pytestmark = pytest.mark.slow


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
