"""Who may what over HTTP, with tokens of Google's: every method for every kind of caller, and the audit log of it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.testclient import TestClient
from tests.api.world import PROJECT, job, world

from encamp.api.access_tokens import USUAL_CLIENTS, AccessTokens
from encamp.api.app import make_app
from encamp.api.audit_left_out import LeftOut
from encamp.api.errors import ApiError
from encamp.api.id_tokens import IdTokens
from encamp.api.identity import GoogleIdentity
from encamp.api.methods import LOG_ENTRIES, METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.api.world import World

    from encamp.api.caller import Caller

pytestmark = pytest.mark.slow

HERE = f"/v1/projects/{PROJECT}"
PEOPLE = ("dev@example.com", "vic@example.com", "guest@example.com", "stranger@example.com")
GUESTS = {"bindings": [{"role": "roles/ml.viewer", "members": ["user:guest@example.com"]}]}
SCOPES = "https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/cloud-platform"


def token(email: str) -> str:
    return f"ya29.secret-of-{email.replace('@', '_at_')}"


def tokeninfo(request: httpx.Request) -> httpx.Response:
    email = request.headers["authorization"].removeprefix("Bearer ya29.secret-of-").replace("_at_", "@")
    if email not in PEOPLE:
        return httpx.Response(400, json={"error": "invalid_token"})
    said = {"email": email, "email_verified": "true", "aud": USUAL_CLIENTS[0], "scope": SCOPES, "expires_in": "3599"}
    return httpx.Response(200, json=said)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    # A minute goes by at each look at the clock, so that every refusal has an entry of its own.
    clock = itertools.count(step=60.0)
    with world(tmp_path_factory.mktemp("roles"), left_out=LeftOut(lambda: next(clock))) as made:
        yield made


@pytest.fixture(scope="module")
def http(service: World) -> Iterator[TestClient]:
    client = httpx.AsyncClient(transport=httpx.MockTransport(tokeninfo))
    identity = GoogleIdentity(
        IdTokens(client, (), ()), AccessTokens(client, "https://oauth2.googleapis.com", USUAL_CLIENTS)
    )
    with TestClient(make_app(replace(service.parts, authenticator=identity, extras={LOG_ENTRIES: lines}))) as made:
        yield made


def lines(caller: Caller, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stands for the logs, of which one person may read all."""
    if caller.email != "vic@example.com":
        raise ApiError("PERMISSION_DENIED", f"No lines of {body['filter']}.")
    return {"entries": [{"textPayload": "a line"}]}


def call(http: TestClient, method: str, who: str | None, name: str) -> Any:
    """The answer to one call of a method, about a job where it is about one."""
    at = f"{HERE}/jobs/{name}"
    calls: dict[str, tuple[str, str, Any]] = {
        "create": ("POST", f"{HERE}/jobs", job(f"of_{name}")),
        "list": ("GET", f"{HERE}/jobs", None),
        "get": ("GET", at, None),
        "patch": ("PATCH", f"{at}?updateMask=labels", {"labels": {"a": "b"}}),
        "cancel": ("POST", f"{at}:cancel", {}),
        "getIamPolicy": ("GET", f"{at}:getIamPolicy", None),
        "setIamPolicy": ("POST", f"{at}:setIamPolicy", {"policy": GUESTS}),
        "testIamPermissions": ("POST", f"{at}:testIamPermissions", {"permissions": ["ml.jobs.get"]}),
        "getConfig": ("GET", f"{HERE}:getConfig", None),
        "locations.list": ("GET", f"{HERE}/locations", None),
        "locations.get": ("GET", f"{HERE}/locations/us-central1", None),
    }
    verb, path, body = calls[method]
    headers = {"authorization": f"Bearer {token(who)}"} if who is not None else {}
    return http.request(verb, path, json=body, headers=headers)


#: Status by method: the job's owner (a developer), a developer, a viewer, whom the job's policy lets look, a stranger,
#: somebody with a token that nobody has, and without any.
WHO = ("dev", "other", "vic", "guest", "stranger", "forger", None)
MAY = {
    "create": (200, 200, 403, 403, 403, 401, 401),
    "list": (200, 200, 200, 403, 403, 401, 401),
    "get": (200, 200, 200, 200, 403, 401, 401),
    "patch": (200, 403, 403, 403, 403, 401, 401),
    "getIamPolicy": (200, 200, 403, 403, 403, 401, 401),
    "testIamPermissions": (200, 200, 200, 200, 200, 401, 401),
    "cancel": (200, 403, 403, 403, 403, 401, 401),
    "setIamPolicy": (200, 403, 403, 403, 403, 401, 401),
    "getConfig": (200, 200, 200, 403, 403, 401, 401),
    "locations.list": (200, 200, 200, 403, 403, 401, 401),
    "locations.get": (200, 200, 200, 403, 403, 401, 401),
}
_CODES = {200: None, 401: 16, 403: 7, 404: 5}


def email(who: str | None) -> str | None:
    """Another developer is the same person to a job that somebody else has made."""
    return {"other": "dev@example.com", None: None}.get(who, f"{who}@example.com")


@pytest.fixture(scope="module")
def jobs(http: TestClient, service: World) -> dict[str, str]:
    """A job of the developer's, and one that an administrator has made; a guest may look at both."""
    mine = call(http, "create", "dev@example.com", "dev")
    with TestClient(service.app, headers={"authorization": "Bearer admin-token"}) as admin:
        theirs = admin.post(f"{HERE}/jobs", json=job("theirs"))
        lets = [
            admin.post(f"{HERE}/jobs/{name}:setIamPolicy", json={"policy": GUESTS}) for name in ("of_dev", "theirs")
        ]
    assert [one.status_code for one in (mine, theirs, *lets)] == [200] * 4
    return {"dev": "of_dev"}


def entries(service: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (service.folder / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", MAY)
def test_every_method_for_every_kind_of_caller(
    method: str, http: TestClient, service: World, jobs: dict[str, str]
) -> None:
    before = len(entries(service))
    # The owner comes last: a job that was cancelled cannot be cancelled again.
    order = sorted(zip(WHO, MAY[method], strict=True), key=lambda one: one[0] == "dev")
    if method == "create":
        order = [one for one in order if one[0] != "dev"]
    for who, status in order:
        answer = call(http, method, email(who), str(who) if method == "create" else jobs.get(str(who), "theirs"))
        assert (who, answer.status_code) == (who, status), answer.text
        if method == "testIamPermissions" and status == 200:
            assert answer.json() == ({} if who == "stranger" else {"permissions": ["ml.jobs.get"]})
    written = entries(service)[before:]
    known = [{"principalEmail": email(who)} if status != 401 else {} for who, status in order]
    assert [one["protoPayload"]["authenticationInfo"] for one in written] == known
    codes = [one["protoPayload"]["status"].get("code") for one in written]
    assert codes == [_CODES[status] for _, status in order]
    named = {one["protoPayload"]["methodName"] for one in written}
    assert named == {
        each.audit for each in METHODS if each.id.removeprefix("projects.").removeprefix("jobs.") == method
    }
    assert "secret-of" not in (service.folder / "audit.jsonl").read_text()


@pytest.mark.parametrize("method", ["get", "patch", "cancel", "getIamPolicy", "setIamPolicy", "testIamPermissions"])
def test_strangers_cannot_tell_a_job_that_is_there_from_one_that_is_not(
    method: str, http: TestClient, jobs: dict[str, str]
) -> None:
    assert jobs
    there, missing = (call(http, method, "stranger@example.com", name) for name in ("theirs", "missing"))
    assert (there.status_code, there.text.replace("theirs", "missing")) == (missing.status_code, missing.text)
    if method != "testIamPermissions":
        assert call(http, method, "vic@example.com", "missing").status_code == 404


def test_reading_logs_is_audited_as_cloud_loggings(http: TestClient, service: World) -> None:
    before = len(entries(service))
    for who, status in (("vic@example.com", 200), ("guest@example.com", 403), ("forger@example.com", 401)):
        headers = {"authorization": f"Bearer {token(who)}"}
        answer = http.post("/v2/entries:list", json={"filter": "all", "resourceNames": ["projects/p"]}, headers=headers)
        assert answer.status_code == status
    read, denied, nobody = (one["protoPayload"] for one in entries(service)[before:])
    assert (read["serviceName"], read["methodName"].rpartition(".")[2]) == ("logging.googleapis.com", "ListLogEntries")
    assert read["request"] == {
        "@type": "type.googleapis.com/google.logging.v2.ListLogEntriesRequest",
        "filter": "all",
        "resourceNames": ["projects/p"],
    }
    assert "a line" not in json.dumps(read)
    assert [one["status"].get("code") for one in (read, denied, nobody)] == [None, 7, 16]
    assert denied["authorizationInfo"][0]["granted"] is False


def test_a_full_audit_log_changes_nothing(http: TestClient, service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.audit, "_free", lambda: 0)
    answer = call(http, "create", "dev@example.com", "late")
    assert (answer.status_code, answer.json()["error"]["status"]) == (503, "UNAVAILABLE")
    assert service.records.record("of_late") is None
    assert call(http, "list", "dev@example.com", "").status_code == 200
    monkeypatch.setattr(service.audit, "_free", lambda: 10**9)
    assert call(http, "create", "dev@example.com", "late").status_code == 200
