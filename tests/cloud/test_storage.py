from __future__ import annotations

import io
import random
from typing import Any

import pytest

from encamp.cloud.rest import GoogleClient, RestError
from encamp.cloud.storage import CHUNK_BYTES, Storage
from encamp.errors import EngineError

pytestmark = pytest.mark.slow


@pytest.fixture
def storage(google: Any, client: GoogleClient) -> Storage:
    google.add_bucket("b")
    return Storage(client)


def test_a_small_object_goes_in_one_request_and_comes_back(google: Any, storage: Storage) -> None:
    stored = storage.upload("b", "jobs/a b/ä.log", b"text", "text/plain")
    assert (stored.uri, stored.size) == ("gs://b/jobs/a b/ä.log", 4)
    assert storage.read("b", "jobs/a b/ä.log") == b"text"
    assert [request.first("uploadType") for request in google.requests] == ["media", ""]


@pytest.mark.parametrize("size", [CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES])
def test_a_large_object_goes_in_pieces(google: Any, storage: Storage, size: int) -> None:
    content = random.Random(size).randbytes(size)  # noqa: S311
    assert storage.upload("b", "big", io.BytesIO(content)).size == size
    assert google.objects["b", "big"] == content


def test_an_upload_goes_on_where_the_server_stopped(google: Any, storage: Storage) -> None:
    content = random.Random(1).randbytes(CHUNK_BYTES + 100)  # noqa: S311
    google.keep_at_most = 256 * 1024
    storage.upload("b", "big", io.BytesIO(content))
    assert google.objects["b", "big"] == content


def test_what_was_stored_is_compared_with_what_was_sent(google: Any, storage: Storage) -> None:
    google.say("POST /upload", 200, {"bucket": "b", "name": "x", "md5Hash": "other"})
    with pytest.raises(RestError, match="differs"):
        storage.upload("b", "x", b"text")


def test_an_object_that_is_not_there_reads_as_none_and_deletes_as_done(storage: Storage) -> None:
    assert storage.read("b", "none") is None
    storage.delete("b", "none")


def test_a_bucket_is_deleted_with_what_is_in_it(google: Any, storage: Storage) -> None:
    storage.upload("b", "x", b"1")
    storage.delete_bucket("b")
    assert google.buckets == {}
    storage.delete_bucket("b")
    assert storage.bucket("b") is None


def test_permissions_are_asked_one_parameter_each(google: Any, storage: Storage) -> None:
    wanted = ("storage.objects.create", "storage.objects.get")
    assert storage.permissions("b", wanted) == {"storage.objects.create"}
    assert google.requests[-1].query["permissions"] == list(wanted)


def test_listing_keeps_to_the_prefix(storage: Storage) -> None:
    for name in ("jobs/a/x", "jobs/ab/x"):
        storage.upload("b", name, b"")
    assert [one.name for one in storage.objects("b", "jobs/a/")] == ["jobs/a/x"]


def test_pieces_whose_answers_are_lost_are_sent_once(google: Any, storage: Storage) -> None:
    content = random.Random(2).randbytes(2 * CHUNK_BYTES + 5)  # noqa: S311
    google.fail("PUT /upload.*", 503, 503, after=True)
    assert storage.upload("b", "big", io.BytesIO(content)).size == len(content)
    assert google.objects["b", "big"] == content


def test_a_service_that_takes_little_at_a_time_is_given_the_rest(google: Any, storage: Storage) -> None:
    content = random.Random(3).randbytes(CHUNK_BYTES + 1)  # noqa: S311
    google.keep_always = 1024 * 1024
    storage.upload("b", "big", io.BytesIO(content))
    assert google.objects["b", "big"] == content


def test_an_upload_that_nothing_arrives_of_is_given_up(google: Any, storage: Storage) -> None:
    google.keep_always = 0
    with pytest.raises(EngineError, match="does not advance"):
        storage.upload("b", "big", io.BytesIO(bytes(CHUNK_BYTES + 1)))


def test_a_bucket_is_empty_when_no_version_of_anything_is_in_it(google: Any, storage: Storage) -> None:
    assert storage.is_empty("nowhere")
    google.buckets["b"] = {"name": "b"}
    assert storage.is_empty("b")
    storage.upload("b", "one", b"1")
    assert not storage.is_empty("b")
    assert google.requests[-1].first("versions") == "true"


def test_a_download_that_breaks_off_is_gone_on_with(google: Any, storage: Storage) -> None:
    storage.upload("b", "big", b"0123456789")
    google.break_off("GET .*/o/big", b"012", b"34")
    assert storage.read("b", "big") == b"0123456789"
    assert [request.headers.get("Range") for request in google.requests[-3:]] == [None, "bytes=3-", "bytes=5-"]
    google.break_off("GET .*/o/big", b"4")
    assert b"".join(storage.download("b", "big", begin=4, end=8)) == b"4567"


def test_a_download_that_breaks_off_again_and_again_is_an_error(google: Any, storage: Storage) -> None:
    storage.upload("b", "big", b"0123456789")
    google.break_off("GET .*/o/big", *[b"0"] * 50)
    with pytest.raises(RestError, match="broke off 6 times"):
        storage.read("b", "big")
