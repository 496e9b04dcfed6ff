"""Batches of Google's client for Python, and what else may come as one: each part is a call of its own."""

from __future__ import annotations

import json
from email.parser import BytesParser
from typing import TYPE_CHECKING, Any

import pytest
import requests
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.http import BatchHttpRequest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from tests.api.test_strangers import entries, serving
from tests.api.world import ADMIN, DEVELOPER, PROJECT, VIEWER, World, job, served, world

from encamp.api.batch import MOST_PARTS, answer_of, parts_of
from encamp.api.limits import LARGEST_BODY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PARENT = f"projects/{PROJECT}"
JOBS = f"/v1/{PARENT}/jobs"
NOBODYS = "nobodys-token"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[World, str]]:
    with world(tmp_path) as found, served(found.app) as url:
        yield found, url


def jobs_of(url: str, token: str) -> Any:
    where = f"{url}$discovery/rest?version={{apiVersion}}"
    return build("ml", "v1", discoveryServiceUrl=where, cache_discovery=False, credentials=Credentials(token))


class Told:
    """What a batch's callbacks were told, by their order."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.codes: list[int] = []

    def __call__(self, _: str, response: Any, exception: Any) -> None:
        self.answers.append(response)
        self.codes.append(200 if exception is None else int(exception.resp.status))


@pytest.mark.parametrize("path", ["", "batch/ml/v1"])
def test_a_batch_of_the_python_client_works(service: tuple[World, str], path: str) -> None:
    found, url = service
    told = Told()
    with jobs_of(url, ADMIN) as ml:
        jobs = ml.projects().jobs()
        batch = ml.new_batch_http_request(callback=told) if not path else BatchHttpRequest(told, f"{url}{path}")
        for name in ("a", "b", "a"):
            batch.add(jobs.create(parent=PARENT, body=job(name)))
        batch.add(jobs.get(name=f"{PARENT}/jobs/a"))
        batch.add(jobs.list(parent=PARENT, filter="jobId:b", pageSize=5))
        batch.add(jobs.cancel(name=f"{PARENT}/jobs/b", body={}))
        batch.add(jobs.get(name=f"{PARENT}/jobs/nobody"))
        batch.execute()
    assert told.codes == [200, 200, 409, 200, 200, 200, 404]
    assert told.answers[3]["jobId"] == "a"
    assert [one["jobId"] for one in told.answers[4]["jobs"]] == ["b"]
    assert told.answers[5] == {}
    shown = entries(found)
    assert [one["methodName"].rpartition(".")[2] for one in shown] == [
        "CreateJob", "CreateJob", "CreateJob", "GetJob", "ListJobs", "CancelJob", "GetJob",
    ]  # fmt: skip
    assert [one["status"].get("code", 0) for one in shown] == [0, 0, 6, 0, 0, 0, 5]
    assert {one["authenticationInfo"]["principalEmail"] for one in shown} == {"ada@example.com"}


def test_each_part_is_its_own_callers(service: tuple[World, str]) -> None:
    """Three clients' calls in one batch of the first: their tokens go along, and none gives another its rights."""
    found, url = service
    told = Told()
    with jobs_of(url, VIEWER) as looks, jobs_of(url, DEVELOPER) as makes, jobs_of(url, NOBODYS) as stranger:
        batch = looks.new_batch_http_request(callback=told)
        for ml, name in ((looks, "a"), (makes, "b"), (looks, "c")):
            batch.add(ml.projects().jobs().create(parent=PARENT, body=job(name)))
        batch.add(stranger.projects().jobs().list(parent=PARENT))
        with pytest.raises(Exception, match="refresh"):
            # The client wants another token for the part that was refused for its token.
            batch.execute()
    assert [record.job_id for record in found.records.records()] == ["b"]
    who = [one["authenticationInfo"].get("principalEmail") for one in entries(found)]
    assert who == ["vic@example.com", "dev@example.com", "vic@example.com", None]


def sent(
    url: str, *parts: str, token: str | None = ADMIN, kind: str = "multipart/mixed; boundary=b"
) -> requests.Response:
    """A batch by hand."""
    head = "--b\r\nContent-Type: application/http\r\nContent-ID: "
    body = "".join(f"{head}<{number}>\r\n\r\n{part}\r\n" for number, part in enumerate(parts)) + "--b--\r\n"
    headers = {"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})}
    return requests.post(f"{url}batch", data=body.encode(), headers=headers, timeout=60)


def replies(answer: requests.Response) -> list[tuple[str, int, Any]]:
    """Content-ID, code and JSON of each part of an answer."""
    head = f"content-type: {answer.headers['content-type']}\r\n\r\n".encode()
    whole: Any = BytesParser().parsebytes(head + answer.content)
    assert whole.is_multipart()
    found: list[tuple[str, int, Any]] = []
    for part in whole.get_payload():
        assert part.get_content_type() == "application/http"
        head_of_it, _, body = part.get_payload().partition("\r\n\r\n")
        found.append((part["Content-ID"], int(head_of_it.split()[1]), json.loads(body)))
    return found


GET = f"GET {JOBS} HTTP/1.1\r\n\r\n"


def test_parts_are_bounded_and_broken_ones_are_refused_alone(service: tuple[World, str]) -> None:
    _, url = service
    wrong = (
        "",
        "nonsense",
        f"GET {JOBS} HTTP/2\r\n\r\n",
        f"GET {JOBS} HTTP/1.1\r\nno header\r\n\r\n",
        "POST /batch HTTP/1.1\r\n\r\n",
    )
    found = replies(sent(url, *wrong, GET, f"BREW {JOBS} HTTP/1.1\r\n\r\n", "GET http://e.example/ HTTP/1.1\r\n\r\n"))
    assert [code for _, code, _ in found] == [400] * 5 + [200, 405, 400]
    assert [identity for identity, _, _ in found] == [f"<response-{number}>" for number in range(8)]
    assert len(replies(sent(url, *[GET] * MOST_PARTS))) == MOST_PARTS
    many = sent(url, *[GET] * (MOST_PARTS + 1))
    assert (many.status_code, str(MOST_PARTS) in many.json()["error"]["message"]) == (400, True)
    assert sent(url, "x" * (LARGEST_BODY + 1)).status_code == 413


def test_whoever_is_not_known_sends_no_batch(service: tuple[World, str]) -> None:
    """Nothing of it is read, also where its parts have tokens of their own."""
    found, url = service
    inner = f"GET {JOBS} HTTP/1.1\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
    assert sent(url, inner, token=None).status_code == 401
    assert sent(url, inner, token=NOBODYS).status_code == 401
    assert [one["methodName"] for one in entries(found)] == ["encamp.Batch"] * 2
    # A part's own token counts for it, and a wrong one is not helped by the one around it.
    forged = f"GET {JOBS} HTTP/1.1\r\nAuthorization: Bearer {NOBODYS}\r\n\r\n"
    assert [code for _, code, _ in replies(sent(url, inner, forged, GET, token=VIEWER))] == [200, 401, 200]


def test_a_batch_whose_answer_gets_too_long_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.api.app.MOST_ANSWER_BYTES", 3_000)
    with world(tmp_path) as found, serving(found) as (host, port):
        url = f"http://{host}:{port}/"
        create = json.dumps(job("a"))
        made = f"POST {JOBS} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{create}"
        cancel = f"POST {JOBS}/a:cancel HTTP/1.1\r\n\r\n{{}}"
        codes = [code for _, code, _ in replies(sent(url, made, *[GET] * 20, cancel))]
        assert codes[:3] == [200, 200, 200]
        assert codes == sorted(codes)
        assert codes[-1] == 503
        # What was cut off was not done, and is on record as refused.
        record = found.records.record("a")
        assert record is not None
        assert record.state == "QUEUED"
        assert [one["status"].get("code") for one in entries(found)][-1] == 14


@pytest.mark.parametrize("kind", ["application/json", "multipart/mixed", "multipart/form-data; boundary=b", ""])
def test_what_is_no_batch_is_told_so(service: tuple[World, str], kind: str) -> None:
    refused = sent(service[1], GET, kind=kind)
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@given(st.binary(max_size=400), st.sampled_from(["b", "==x==", "a b", "'q'", "(?:)*"]))
def test_any_bytes_are_parts_or_refused(noise: bytes, boundary: str) -> None:
    headers = Headers({"content-type": f'multipart/mixed; boundary="{boundary}"', "authorization": "Bearer t"})
    mark = b"\n--" + boundary.encode()
    body = mark + b"\r\n" + noise + mark + b"\n" + noise * 3 + mark + b"--"
    for part in parts_of(body, headers):
        assert part.error is not None or part.scope["path"].startswith("/")


def test_no_answer_ends_another() -> None:
    """A boundary that a caller could foresee would let a text of theirs look like another part."""
    assert len({answer_of([]).kind for _ in range(5)}) == 5
