from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.run.history.retention import Expired, delete_if_empty, delete_results, expired, kept_until, note_term
from encamp.run.store.intent import Intent

if TYPE_CHECKING:
    from encamp.cloud.rest import GoogleClient

ENDED = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
INTENT = Intent(
    job_id="digits_1",
    name="digits-1-abc",
    environment="e",
    stack="job-digits-1-abc",
    folder="",
    project="p",
    cluster="c",
    namespace="n",
    artifacts_bucket="artifacts",
    prefix="jobs/digits_1/",
    labels={},
    deadline=0.0,
    max_running_seconds=60,
    max_wait_seconds=None,
    replicas=(),
    machines={},
    results_bucket="digits-1-abc-results-1",
    results_days=7,
)
RECEIPT = {
    "version": 1,
    "jobId": "digits_1",
    "name": "digits-1-abc",
    "outcome": {"state": "FAILED", "message": "what the trainer said"},
    "times": {"FAILED": "2026-05-01T12:00:00"},
    "images": {"master": "secret/image"},
    "nodeSeconds": {"n1-standard-4": 60.0},
    "cost": {"usd": 0.01},
}


@pytest.fixture
def storage(google: Any, client: GoogleClient) -> Storage:
    google.add_bucket("artifacts")
    google.add_bucket("digits-1-abc-results-1", **{"encamp-results": "digits-1-abc"})
    google.objects["digits-1-abc-results-1", "output/model"] = b"model"
    for name in ("logs/master-replica-0.log", "logs/manifest.json", "output/model"):
        google.objects["artifacts", f"jobs/digits_1/{name}"] = b"x"
    google.objects["artifacts", "jobs/digits_1/receipt.json"] = json.dumps(RECEIPT).encode()
    google.objects["artifacts", "jobs/digits_10/receipt.json"] = b"{}"
    return Storage(client)


def noted(storage: Storage, intent: Intent = INTENT) -> datetime:
    until = kept_until(intent, ENDED)
    assert until is not None
    note_term(storage, intent, until)
    return until


def due(storage: Storage, now: datetime) -> list[Expired]:
    return list(expired(storage, "artifacts", now))


def test_a_term_begins_with_the_end_of_the_job() -> None:
    assert kept_until(INTENT, ENDED) == datetime(2026, 5, 8, 12, 0, 0, tzinfo=UTC)
    assert kept_until(INTENT.model_copy(update={"results_days": None}), ENDED) is None


def test_a_term_is_over_when_it_is_over_and_not_before(storage: Storage) -> None:
    until = noted(storage)
    assert due(storage, until - timedelta(seconds=1)) == []
    assert [one.job_id for one in due(storage, until)] == ["digits_1"]


def test_notes_of_later_terms_are_not_read(google: Any, storage: Storage) -> None:
    until = noted(storage)
    for day in range(3):
        later = INTENT.model_copy(update={"job_id": f"later_{day}", "prefix": f"jobs/later_{day}/"})
        note_term(storage, later, until + timedelta(days=day + 1))
    before = len(google.requests)
    assert [one.job_id for one in due(storage, until)] == ["digits_1"]
    assert len(google.requests) - before == 2


def test_what_a_job_left_goes_but_for_the_mark_of_its_id(google: Any, storage: Storage) -> None:
    until = noted(storage)
    (one,) = due(storage, until)
    delete_results(storage, one, until)
    assert sorted(google.objects) == [
        ("artifacts", "jobs/digits_1/receipt.json"),
        ("artifacts", "jobs/digits_10/receipt.json"),
    ]
    assert sorted(google.buckets) == ["artifacts"]
    mark = json.loads(google.objects["artifacts", "jobs/digits_1/receipt.json"])
    assert mark["outcome"] == {"state": "FAILED"}
    assert mark["results"] == {"until": "2026-05-08T12:00:00Z", "deleted": "2026-05-08T12:00:00Z"}
    assert mark["nodeSeconds"] == {"n1-standard-4": 60.0}
    assert mark["cost"] == {"usd": 0.01}
    assert set(mark) == {"version", "jobId", "name", "outcome", "times", "results", "nodeSeconds", "cost"}
    assert due(storage, until) == []


def test_a_failure_on_the_way_is_made_good_the_next_time(google: Any, storage: Storage) -> None:
    until = noted(storage)
    google.fail("DELETE .*/manifest.json", 403)
    (one,) = due(storage, until)
    with pytest.raises(EngineError):
        delete_results(storage, one, until)
    (again,) = due(storage, until)
    delete_results(storage, again, until)
    assert len(google.objects) == 2


def test_a_bucket_without_the_jobs_label_is_not_deleted(google: Any, storage: Storage) -> None:
    google.buckets["digits-1-abc-results-1"]["labels"] = {"encamp-results": "another"}
    until = noted(storage)
    (one,) = due(storage, until)
    with pytest.raises(EngineError, match="does not carry the label"):
        delete_results(storage, one, until)
    assert ("digits-1-abc-results-1", "output/model") in google.objects
    assert ("artifacts", "jobs/digits_1/output/model") in google.objects


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("expiry/2026-01-01T00:00:00Z/digits_1.json", b"no json"),
        ("expiry/2026-01-01T00:00:00Z/digits_1.json", b"null"),
        ("expiry/yesterday/digits_1.json", b"{}"),
        (
            "expiry/2026-01-01T00:00:00Z/digits_1.json",
            b'{"jobId": "digits_1", "name": "n", "prefix": "jobs/", "resultsBucket": null}',
        ),
        (
            "expiry/2026-01-01T00:00:00Z/other.json",
            b'{"jobId": "digits_1", "name": "n", "prefix": "jobs/digits_1/", "resultsBucket": null}',
        ),
    ],
)
def test_a_note_that_is_none_of_ours_deletes_nothing(google: Any, storage: Storage, name: str, note: bytes) -> None:
    google.objects["artifacts", name] = note
    assert due(storage, ENDED) == []


@pytest.mark.parametrize(
    ("objects", "gone"),
    [
        ({}, True),
        ({"output/": b"", "output/model/": b""}, True),
        ({"output/": b"", "output/model": b""}, False),
        ({"output/": b"something"}, False),
    ],
)
def test_a_bucket_with_nothing_but_folders_is_empty(
    google: Any, client: GoogleClient, objects: Any, *, gone: bool
) -> None:
    google.add_bucket("own")
    for name, content in objects.items():
        google.objects["own", name] = content
    assert delete_if_empty(Storage(client), "own") is gone
    assert ("own" in google.buckets) is not gone
    assert gone or sum(bucket == "own" for bucket, _ in google.objects) == len(objects)
