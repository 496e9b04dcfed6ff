"""What of a request can be read: bodies, queries, paths, selectors of fields, pages."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from encamp.api import limits, paging
from encamp.api.errors import ApiError
from encamp.api.limits import ClientGoneError, json_object, read_body
from encamp.api.methods import METHODS
from encamp.api.parameters import Asked, Head, asked, head_of
from encamp.api.partial import part, selector
from encamp.api.routing import WrongVerbError, route

JSON = "application/json"


def received(*parts: bytes, gone: bool = False) -> Any:
    messages = deque({"type": "http.request", "body": part, "more_body": True} for part in parts)
    messages.append({"type": "http.disconnect"} if gone else {"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return messages.popleft()

    return receive


def body(*parts: bytes, length: str | None = None, gone: bool = False) -> bytes:
    return asyncio.run(read_body(received(*parts, gone=gone), length))


def test_a_body_in_pieces_is_one() -> None:
    assert body(b'{"a', b'": 1}') == b'{"a": 1}'


def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    with pytest.raises(ApiError) as caught:
        body(gone=True, length=str(10 << 20))

    assert caught.value.code == 413


@pytest.mark.parametrize("length", [None, "5", "-1", "x", "9" * 4000 + "x"])
def test_a_body_that_is_too_long_is_not_read_to_its_end(length: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        body(*[b"x" * (1 << 16)] * 17, length=length)

    assert caught.value.code == 413


def test_a_body_that_breaks_off_is_nobodys() -> None:
    with pytest.raises(ClientGoneError):
        body(b'{"a"', gone=True)


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.01)

    async def never() -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    with pytest.raises(ApiError) as caught:
        asyncio.run(read_body(never, None))

    assert (caught.value.code, caught.value.status) == (408, "DEADLINE_EXCEEDED")


def test_an_empty_body_is_an_empty_object() -> None:
    assert json_object(b"", None) == {}


@pytest.mark.parametrize("kind", [None, JSON, "Application/JSON; charset=utf-8", "application/merge-patch+json"])
def test_json_is_read(kind: str | None) -> None:
    assert json_object('{"a": ["é", 1.5, null]}'.encode(), kind) == {"a": ["é", 1.5, None]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "the body must be an object"),
        (b'"text"', "the body must be an object"),
        (b"null", "the body must be an object"),
        (b"{", "in line 1, column 2"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is no number of JSON"),
        (b'{"a": "\xff"}', "byte 7 is no UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is no UTF-8"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "too many digits"),
        (b'{"a": ' + b"[" * 51 + b"]" * 51 + b"}", "more than 50 lists and objects"),
        (b'{"a": ' * 300 + b"1" + b"}" * 300, "more than 50 lists and objects"),
        (b"[" * 500_000, "more than 50 lists and objects"),
        (b'{"a":' * 200_000, "more than 50 lists and objects"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ApiError) as caught:
        json_object(data, JSON)

    assert caught.value.code == 400
    assert said in caught.value.message


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_any_page_could_send_is_refused(kind: str) -> None:
    with pytest.raises(ApiError) as caught:
        json_object(b"{}", kind)

    assert "send application/json" in caught.value.message


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ApiError):
        assert isinstance(json_object(data, JSON), dict)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_every_method_is_found_by_its_path(method: Any) -> None:
    values = {"project": "p-1", "job": "j_1", "location": "us-central1"}
    found = route(method.verb, f"/{method.path.format(**values)}")

    assert found.method is method
    assert found.values == {name: values[name] for name in values if f"{{{name}}}" in method.path}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "/v1",
        "/v1/",
        "/v2/projects/p/jobs",
        "/v1/projects/p",
        "/v1/projects//jobs",
        "/v1/projects/p/jobs/",
        "/v1/projects/p/jobs/j/",
        "/v1/projects/p/jobs/j/x",
        "/v1/projects/p/jobs/j:",
        "/v1/projects/p/jobs/:cancel",
        "/v1/projects/p/jobs/j:destroy",
        "/v1/projects/p/jobs/j:cancel:cancel",
        "/v1/projects/p/models",
        "/v1/projects/p/jobs:cancel",
        "/v1/jobs/p/projects/j",
        "/v1/projects/p/jobs/j/jobs/k",
        "v1/projects/p/jobs/../../x",
    ],
)
def test_what_is_no_method_is_not_found(path: str) -> None:
    with pytest.raises(ApiError) as caught:
        route("GET", path)

    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("DELETE", "/v1/projects/p/jobs/j", "GET, PATCH"),
        ("PUT", "/v1/projects/p/jobs", "GET, POST"),
        ("GET", "/v1/projects/p/jobs/j:cancel", "POST"),
        ("POST", "/v1/projects/p/jobs/j:getIamPolicy", "GET"),
        ("BREW", "/v1/projects/p:getConfig", "GET"),
    ],
)
def test_another_verb_is_told_which_there_are(verb: str, path: str, allowed: str) -> None:
    with pytest.raises(WrongVerbError) as caught:
        route(verb, path)

    assert (caught.value.code, caught.value.allowed) == (405, allowed)


def head(text: str, verb: str = "GET", headers: dict[str, str] | None = None) -> Head:
    return head_of({"method": verb, "path": "/x", "query_string": text.encode()}, Headers(headers or {}))


def query(text: str, sent: bytes = b"") -> Asked:
    return asked(head(text), sent)


LIST = next(method for method in METHODS if method.id == "projects.jobs.list")


def test_standard_parameters_are_taken() -> None:
    text = "alt=json&$.xgafv=2&key=k&quotaUser=u&prettyPrint=false&callback=f&access_token=t&pageSize=3&filter=jobId:a"

    found = query(text)

    assert found.parameters(LIST) == {"filter": "jobId:a", "pageSize": "3"}
    assert not found.pretty


def test_the_first_of_two_counts() -> None:
    assert query("pageSize=3&pageSize=4").parameters(LIST) == {"pageSize": "3"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", "Invalid value at 'colour'"),
        ("page_size=3", "Invalid value at 'page_size'"),
        ("pageSize=three", "'three' is no whole number"),
        ("pageSize=1e2", "'1e2' is no whole number"),
        ("alt=proto", "'proto' is not served"),
        ("fields=jobs(", "Invalid field selection"),
        ("filter=%ff", "The query cannot be read"),
        ("&".join(f"a{n}=1" for n in range(101)), "The query cannot be read"),
    ],
)
def test_other_queries_are_refused(text: str, said: str) -> None:
    with pytest.raises(ApiError) as caught:
        query(text).parameters(LIST)

    assert caught.value.code == 400
    assert said in caught.value.message


def test_a_long_query_may_come_as_a_post() -> None:
    headers = {"x-http-method-override": "GET", "content-type": "application/x-www-form-urlencoded"}

    found = head("alt=json", "POST", headers)

    assert (found.verb, found.form) == ("GET", True)
    assert query("alt=json", b"filter=jobId%3Aa&pageSize=2").parameters(LIST) == {"filter": "jobId:a", "pageSize": "2"}


def test_only_a_post_may_mean_another_verb() -> None:
    assert head("", "POST", {"x-http-method-override": "patch"}).verb == "PATCH"
    assert head("", "GET", {"x-http-method-override": "DELETE"}).verb == "GET"
    assert head("", "POST", {"x-http-method-override": "BREW"}).verb == "POST"


DATA = {"jobs": [{"jobId": "a", "state": "QUEUED", "x": {"y": 1, "z": 2}}, {"jobId": "b"}], "nextPageToken": "t"}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ("*", DATA),
        ("nextPageToken", {"nextPageToken": "t"}),
        ("jobs/jobId", {"jobs": [{"jobId": "a"}, {"jobId": "b"}]}),
        ("jobs(jobId, state)", {"jobs": [{"jobId": "a", "state": "QUEUED"}, {"jobId": "b"}]}),
        ("jobs(x/y),nextPageToken", {"jobs": [{"x": {"y": 1}}, {}], "nextPageToken": "t"}),
        ("jobs/x/*", {"jobs": [{"x": {"y": 1, "z": 2}}, {}]}),
        ("nothing", {}),
    ],
)
def test_fields_select(fields: str, left: Any) -> None:
    assert part(DATA, selector(fields)) == left


@pytest.mark.parametrize(
    "fields", ["", ",", "a,", "a(", "a(b", "a)", "a//b", "/a", "a b c;", "(" * 500, "a/" * 400 + "a"]
)
def test_other_selectors_are_refused(fields: str) -> None:
    with pytest.raises(ApiError) as caught:
        selector(fields)

    assert caught.value.code == 400


def test_a_page_goes_on_where_its_token_says() -> None:
    place = (1669078961.123456, "job_1")

    found = paging.asked({"pageToken": paging.token(place, "state:FAILED")}, "state:FAILED")

    assert found == paging.Page(20, place)


@pytest.mark.parametrize(
    ("text", "size"), [("", 20), ("0", 20), ("1", 1), ("100", 100), ("101", 100), ("2147483647", 100)]
)
def test_sizes_of_pages(text: str, size: int) -> None:
    assert paging.asked({"pageSize": text}, "").size == size


@pytest.mark.parametrize("text", ["-1", "-2147483648", "2147483648", "-2147483649", "9999999999"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        paging.asked({"pageSize": text}, "")

    assert caught.value.message.startswith("Field: page_size Error: ")


def test_a_token_of_another_filter_is_refused() -> None:
    token = paging.token((1.0, "a"), "state:FAILED")

    with pytest.raises(ApiError) as caught:
        paging.asked({"pageToken": token}, "")

    assert "belongs to another filter" in caught.value.message


@settings(max_examples=30)
@given(st.text(min_size=1, max_size=80) | st.binary(min_size=1, max_size=60).map(lambda data: b64encode(data).decode()))
def test_any_other_token_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        paging.asked({"pageToken": text}, "")

    assert caught.value.message.startswith("Field: page_token Error: ")
