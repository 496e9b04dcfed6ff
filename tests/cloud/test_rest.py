from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.exceptions import RefreshError, TransportError

from encamp.cloud.endpoints import Service, endpoint
from encamp.cloud.rest import GoogleClient, RestError
from encamp.retries import PATIENT


@pytest.mark.parametrize(
    ("value", "root"),
    [
        (None, "https://storage.googleapis.com"),
        ("http://127.0.0.1:1/storage/v1/", "http://127.0.0.1:1"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_gclouds_override_of_storage_is_understood_in_each_form(value: str | None, root: str) -> None:
    environ = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": value} if value else {}
    assert endpoint(Service.STORAGE, environ) == root


def test_other_services_keep_the_path_of_their_override() -> None:
    environ = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": "http://127.0.0.1:1/container/"}
    assert endpoint(Service.CONTAINER, environ) == "http://127.0.0.1:1/container"


def test_the_storage_emulators_host_serves_where_gcloud_has_no_override() -> None:
    assert endpoint(Service.STORAGE, {"API_ENDPOINT_OVERRIDE": "127.0.0.1:7"}) == "http://127.0.0.1:7"


def test_errors_that_pass_are_tried_again(google: Any, client: GoogleClient) -> None:
    google.add_bucket("b")
    google.fail("GET /storage/v1/b", 429, 503, 500)
    assert client.json(Service.STORAGE, "GET", "/storage/v1/b")["items"][0]["name"] == "b"
    assert len(google.requests) == 4


def test_retries_are_bounded(google: Any, client: GoogleClient) -> None:
    google.fail("GET", *[503] * 50)
    with pytest.raises(RestError, match="no usable answer after 6 attempts: scripted 503"):
        client.json(Service.STORAGE, "GET", "/storage/v1/b")
    assert len(google.requests) == 6


def test_a_server_that_is_not_there_is_reported_without_its_query() -> None:
    environ = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": "http://127.0.0.1:9"}
    with requests.Session() as session, pytest.raises(RestError) as caught:
        GoogleClient(session, environ=environ, sleep=lambda _: None).json(
            Service.IAM, "GET", "/v1/x", params={"token": "SECRET"}
        )
    assert caught.value.status == 0
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(("status", "advice"), [(401, "application-default login"), (403, "permission")])
def test_a_refusal_is_final_and_says_what_to_try(google: Any, client: GoogleClient, status: int, advice: str) -> None:
    google.fail("GET", status)
    with pytest.raises(RestError, match=advice) as caught:
        client.json(Service.STORAGE, "GET", "/storage/v1/b")
    assert caught.value.status == status
    assert len(google.requests) == 1


def test_every_page_of_a_listing_is_read(google: Any, client: GoogleClient) -> None:
    google.page_size = 2
    for index in range(5):
        google.objects["b", f"o{index}"] = b""
    names = [item["name"] for item in client.pages(Service.STORAGE, "/storage/v1/b/b/o", "items")]
    assert names == ["o0", "o1", "o2", "o3", "o4"]


def test_pauses_grow_and_differ(google: Any) -> None:
    google.fail("GET", *[503] * 50)
    pauses: list[float] = []
    with requests.Session() as session, pytest.raises(RestError):
        GoogleClient(session, environ=google.environ(), sleep=pauses.append).json(
            Service.STORAGE, "GET", "/storage/v1/b"
        )
    longest = [0.5, 1.0, 2.0, 4.0, 8.0]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, longest, strict=True))


def test_application_default_credentials_are_sent_as_a_bearer_token(
    google: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = tmp_path / "key.json"
    account = {"type": "service_account", "client_email": "a@p", "private_key": secret.decode(), "project_id": "p"}
    key.write_text(json.dumps({**account, "token_uri": f"{google.url}/token"}))
    google.say("POST /token", 200, {"access_token": "planted", "expires_in": 3600, "token_type": "Bearer"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    google.add_bucket("b")
    client = GoogleClient(environ=google.environ())
    client.json(Service.STORAGE, "GET", "/storage/v1/b")
    assert google.requests[-1].headers["authorization"] == "Bearer planted"


def test_a_servers_retry_after_is_followed_within_the_policy(google: Any) -> None:
    google.busy("GET", "7", "600", "soon")
    google.add_bucket("b")
    pauses: list[float] = []
    with requests.Session() as session:
        client = GoogleClient(session, environ=google.environ(), sleep=pauses.append)
        assert client.json(Service.STORAGE, "GET", "/storage/v1/b")["items"]
    assert pauses[:2] == [7.0, 20.0]
    assert 1.0 <= pauses[2] <= 2.0


def test_a_patient_client_goes_on_for_minutes_and_says_so_once(google: Any) -> None:
    google.fail("GET", *[503] * 9)
    google.add_bucket("b")
    told: list[str] = []
    with requests.Session() as session:
        short = GoogleClient(session, environ=google.environ(), sleep=lambda _: None)
        client = short.with_policy(PATIENT, told.append)
        assert client.json(Service.STORAGE, "GET", "/storage/v1/b")["items"]
    (line,) = told
    assert "GET /storage/v1/b" in line
    assert "scripted 503" in line


def test_a_request_that_must_not_be_repeated_is_not_even_by_a_patient_client(google: Any) -> None:
    google.fail("POST", *[503] * 9)
    with requests.Session() as session:
        client = GoogleClient(session, environ=google.environ(), sleep=lambda _: None, policy=PATIENT)
        with pytest.raises(RestError, match="after 1 attempt: scripted 503"):
            client.request(Service.STORAGE, "POST", "/storage/v1/b", attempts=1)
    assert len(google.requests) == 1


class Flaky(requests.Session):
    """Gets no token at first."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self._errors = list(errors)

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        if self._errors:
            raise self._errors.pop(0)
        return super().request(*arguments, **options)


def test_a_token_that_may_come_is_asked_for_again(google: Any) -> None:
    google.add_bucket("b")
    with Flaky(RefreshError("503", retryable=True), TransportError("no route")) as session:
        client = GoogleClient(session, environ=google.environ(), sleep=lambda _: None)
        assert client.json(Service.STORAGE, "GET", "/storage/v1/b")["items"]
    with Flaky(RefreshError("invalid_grant")) as session:
        client = GoogleClient(session, environ=google.environ(), sleep=lambda _: None)
        with pytest.raises(RestError, match="no token: RefreshError"):
            client.json(Service.STORAGE, "GET", "/storage/v1/b")


@pytest.mark.parametrize("content", [b"<html>denied by the proxy</html>", b"\xff", b"Internal Server Error"])
def test_an_answer_that_is_no_json_is_named(content: bytes) -> None:
    answer = requests.Response()
    answer.status_code, answer._content = 200, content

    class Session(requests.Session):
        def request(self, *_: Any, **__: Any) -> requests.Response:
            return answer

    client = GoogleClient(Session())
    with pytest.raises(RestError, match="200, but the answer is no JSON") as caught:
        client.json(Service.STORAGE, "POST", "/upload/storage/v1/b/x/o", params={"token": "SECRET"})
    assert caught.value.where == "POST /upload/storage/v1/b/x/o"
    assert "proxies" in (caught.value.hint or "")
