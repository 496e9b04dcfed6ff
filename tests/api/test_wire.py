"""What comes over a socket that no client of these days would send: each gets its answer, and nothing is half made."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.api.world import ADMIN, PROJECT, World, job, served, world

from encamp.api.limits import DEEPEST, LARGEST_BODY
from encamp.api.listening import listen

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
JOBS = f"/v1/projects/{PROJECT}/jobs"
KNOWN = "known"
MIB = 1 << 20
_SECONDS = 30.0


@dataclass(frozen=True)
class Reply:
    """An answer; ``body`` is None where there is none by the method."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def status(self) -> str:
        """Name of the refusal, which has the form of all of them."""
        error = self.data["error"]
        assert error["code"] == self.code
        assert error["message"]
        return str(error["status"])


class Wire:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=_SECONDS)
        self.left = b""

    def send(self, *parts: bytes) -> None:
        """Send what the server still takes."""
        for part in parts:
            try:
                self.socket.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                return

    def reply(self, *, to_head: bool = False) -> Reply:
        while b"\r\n\r\n" not in self.left:
            self.left += self._more()
        head, _, self.left = self.left.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        code = int(first.split()[1])
        if code == 100:
            return Reply(code, headers, b"")
        length = 0 if to_head else int(headers["content-length"])
        while len(self.left) < length:
            self.left += self._more()
        body, self.left = self.left[:length], self.left[length:]
        return Reply(code, headers, body)

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        try:
            while True:
                self.left += self._more()
        except ConnectionError:
            return self.left

    def _more(self) -> bytes:
        found = self.socket.recv(65536)
        if not found:
            raise ConnectionResetError("the server closed")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, tuple[str, int]]]:
    with world(tmp_path_factory.mktemp("service")) as found, served(found.app) as url:
        host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
        address = host, int(port)
        assert ask(address, request("POST", JOBS, job(KNOWN))).code == 200
        yield found, address


@pytest.fixture
def address(service: tuple[World, tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The service, which is as it was afterwards: it answers, and no job was made."""
    found, where = service
    yield where
    after = ask(where, request("GET", JOBS))
    assert [one["jobId"] for one in after.data["jobs"]] == [KNOWN]
    assert found.told.woken == 1


def request(verb: str, path: str, body: Any = None, **headers: str) -> bytes:
    """A request with its body, if it has one; a header that is empty is left out."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {"host": "localhost", "authorization": f"Bearer {ADMIN}"}
    if body is not None:
        given |= {"content-type": "application/json", "content-length": str(len(content))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def ask(address: tuple[str, int], *parts: bytes, to_head: bool = False) -> Reply:
    with Wire(address) as wire:
        wire.send(*parts)
        return wire.reply(to_head=to_head)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"jobId":[', b'[{"":'])
def test_ten_megabytes_of_nesting_are_refused_by_their_length(address: tuple[str, int], opening: bytes) -> None:
    bomb = opening * (10 * MIB // len(opening))
    refused = ask(address, request("POST", JOBS, bomb))
    assert (refused.code, refused.status) == (413, "INVALID_ARGUMENT")


def test_ten_megabytes_in_chunks_are_refused_once_they_are_too_many(address: tuple[str, int]) -> None:
    head = request("POST", JOBS, content_type="application/json", transfer_encoding="chunked")
    refused = ask(address, head, *(b"10000\r\n" + b"[" * 65536 + b"\r\n" for _ in range(160)))
    assert (refused.code, refused.status) == (413, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (LARGEST_BODY - 10),
        b'{"a":' * (LARGEST_BODY // 6),
        b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST,
        b'{"trainingInput":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
    ids=["lists", "objects", "one too many", "within a field"],
)
def test_what_is_nested_too_deeply_is_refused(address: tuple[str, int], body: bytes) -> None:
    refused = ask(address, request("POST", JOBS, body))
    assert (refused.code, refused.status) == (400, "INVALID_ARGUMENT")
    assert len(refused.body) < 10_000


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"nope", b"[]", b"null", b"0", b'"job"', b"\x00", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}",
        b'{"jobId": "\xff"}',
        b'{"jobId": NaN}', b'{"jobId": ' + b"9" * 10_000 + b"}", b'{"jobId": "\\ud800"}', b'{"jobId": "a\\u0000b"}',
        b'{"jobId": 1e999}', b"{'jobId': 1}", b'{"jobId": "a",}', b"{} {}",
    ],
)  # fmt: skip
def test_what_is_no_job_is_refused(address: tuple[str, int], body: bytes) -> None:
    refused = ask(address, request("POST", JOBS, body))
    assert (refused.code, refused.status) == (400, "INVALID_ARGUMENT")
    assert len(refused.body) < 5_000


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", "json"]
)
def test_only_json_is_json(address: tuple[str, int], kind: str) -> None:
    refused = ask(address, request("POST", JOBS, job("other"), content_type=kind))
    assert (refused.code, refused.status) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json", ""])
def test_json_has_several_names(address: tuple[str, int], kind: str) -> None:
    taken = ask(address, request("POST", JOBS, job(KNOWN, labels={"a": "b"}), content_type=kind))
    assert (taken.code, taken.status) == (409, "ALREADY_EXISTS")


def test_a_body_in_chunks_is_a_body(address: tuple[str, int]) -> None:
    body = json.dumps({"permissions": ["ml.jobs.get"]}).encode()
    head = request(
        "POST", f"{JOBS}/{KNOWN}:testIamPermissions", content_type="application/json", transfer_encoding="chunked"
    )
    found = ask(address, head, chunked(*(body[at : at + 3] for at in range(0, len(body), 3))))
    assert (found.code, found.data) == (200, {"permissions": ["ml.jobs.get"]})


@pytest.mark.parametrize(
    "chunk", [b"zz\r\n{}\r\n", b"-1\r\n", b"2\r\n{}XX", b"f" * 40 + b"\r\n", b"2 2\r\n{}\r\n0\r\n\r\n"]
)
def test_chunks_that_are_none_are_refused(address: tuple[str, int], chunk: bytes) -> None:
    head = request("POST", JOBS, content_type="application/json", transfer_encoding="chunked")
    refused = ask(address, head, chunk)
    assert (refused.code, refused.status) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "framing",
    [
        {"content_length": "5, 6"},
        {"content_length": "-1"},
        {"content_length": "1e3"},
        {"content_length": "2", "transfer_encoding": "chunked"},
        {"content_length": "", "transfer_encoding": "gzip, chunked"},
        {"content_length": "", "transfer_encoding": "identity"},
    ],
    ids=str,
)
def test_a_body_has_one_length(address: tuple[str, int], framing: dict[str, str]) -> None:
    # What two programs in a row may read differently is read by none.
    with Wire(address) as wire:
        wire.send(request("POST", JOBS, b"{}", **framing) + b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n")
        refused = wire.reply()
        assert refused.code in {400, 501}
        assert refused.status in {"INVALID_ARGUMENT", "UNIMPLEMENTED"}
        assert wire.rest() == b""


def test_who_sends_no_more_still_gets_the_answer(address: tuple[str, int]) -> None:
    with Wire(address) as wire:
        wire.send(request("GET", f"{JOBS}/{KNOWN}"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.reply().data["jobId"] == KNOWN


@pytest.mark.parametrize("left_out", [1, 100])
def test_half_a_body_makes_no_job(address: tuple[str, int], left_out: int) -> None:
    with Wire(address) as wire:
        wire.send(request("POST", JOBS, job("half"))[:-left_out])
        wire.socket.shutdown(socket.SHUT_WR)
        wire.rest()


def test_slow_clients_make_no_job_and_keep_nobody_waiting(service: tuple[World, tuple[str, int]]) -> None:
    found, _ = service
    sent = request("POST", JOBS, job("slow"))
    with served(found.app, head_seconds=0.5, body_seconds=0.5) as url:
        host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
        slow = [Wire((host, int(port))) for _ in range(20)]
        for number, wire in enumerate(slow):
            wire.send(sent[: 20 if number % 2 else -20])
        assert ask((host, int(port)), request("GET", f"{JOBS}/{KNOWN}")).code == 200
        for wire in slow:
            with wire:
                refused = wire.reply()
                assert (refused.code, refused.status) == (408, "DEADLINE_EXCEEDED")
                assert wire.rest() == b""
        assert ask((host, int(port)), request("GET", f"{JOBS}/slow")).code == 404


def test_requests_at_once_are_answered_in_their_order(address: tuple[str, int]) -> None:
    paths = [f"{JOBS}/{KNOWN}", f"{JOBS}/nobody", f"/v1/projects/{PROJECT}:getConfig", "/nowhere", f"{JOBS}/{KNOWN}"]
    with Wire(address) as wire:
        wire.send(b"".join(request("GET", path) for path in paths))
        replies = [wire.reply() for _ in paths]
    assert [one.code for one in replies] == [200, 404, 200, 404, 200]
    assert replies[0].body == replies[4].body


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/{KNOWN}", f"{JOBS}/nobody", "/docs", "/openapi.json"])
def test_a_head_is_that_of_a_get(address: tuple[str, int], path: str) -> None:
    with Wire(address) as wire:
        wire.send(request("HEAD", path) + request("GET", path))
        head, get = wire.reply(to_head=True), wire.reply()
    drop = {"date"}
    assert head.code == get.code
    assert {key: one for key, one in head.headers.items() if key not in drop} == {
        key: one for key, one in get.headers.items() if key not in drop
    }


@pytest.mark.parametrize("verb", ["OPTIONS", "PUT", "DELETE", "TRACE", "PROPFIND", "get", "X" * 200])
@pytest.mark.parametrize(("path", "allowed"), [(JOBS, "GET, POST"), (f"{JOBS}/{KNOWN}", "GET, PATCH")])
def test_what_is_not_done_is_told_with_what_is(address: tuple[str, int], verb: str, path: str, allowed: str) -> None:
    refused = ask(address, request(verb, path))
    assert (refused.code, refused.status, refused.headers["allow"]) == (405, "UNIMPLEMENTED", allowed)


@pytest.mark.parametrize("verb", ["POST", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/$discovery/rest?version=v1"])
def test_documents_are_read_only(address: tuple[str, int], verb: str, path: str) -> None:
    refused = ask(address, request(verb, path, b"{}"))
    assert refused.code in {404, 405}
    assert refused.status in {"NOT_FOUND", "UNIMPLEMENTED"}


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/", {404}),
        ("//", {404}),
        ("/v1", {404}),
        ("/v2/projects/x/jobs", {404}),
        (f"{JOBS}/", {404}),
        (f"{JOBS}//", {404}),
        (f"{JOBS}/%zz", {400, 404}),
        (f"{JOBS}/%ff%fe", {400, 404}),
        (f"{JOBS}/%00", {400, 404}),
        (f"{JOBS}/a%0Ab", {404}),
        (f"{JOBS}/a%2Fb", {404}),
        (f"{JOBS}/..%2F..%2Fetc%2Fpasswd", {404}),
        (f"{JOBS}/../../../etc/passwd", {404}),
        (f"{JOBS}/{KNOWN}:nothing", {404}),
        (f"{JOBS}/{KNOWN}:cancel:cancel", {404}),
        (f"{JOBS}?filter=%ff", {400}),
        (f"{JOBS}?pageToken=%00", {400}),
        (f"{JOBS}?pageSize=99999999999", {400}),
        (f"{JOBS}?nothing=1", {400}),
        (f"{JOBS}?alt=proto", {400}),
        (f"{JOBS}?fields=((", {400}),
        (f"{JOBS}?filter=" + "(" * 1500, {400}),
        (f"{JOBS}?{'&'.join(f'a{number}=1' for number in range(500))}", {400}),
        ("/docs/", {404}),
        ("/$discovery/rest", {404}),
        ("/$discovery/rest?version=v2", {404}),
        (f"{JOBS}/{'j' * 20_000}", {404}),
        ("*", {400, 404}),
        ("http://elsewhere.example/v1/projects/x/jobs", {400, 404}),
    ],
)
def test_paths_that_lead_nowhere(address: tuple[str, int], path: str, codes: set[int]) -> None:
    refused = ask(address, request("GET", path))
    assert refused.code in codes
    assert refused.status in {"NOT_FOUND", "INVALID_ARGUMENT"}
    assert refused.headers["content-type"].startswith("application/json")
    assert len(refused.body) < 5_000


@pytest.mark.parametrize(
    "sent",
    [
        request("GET", f"{JOBS}?filter={'x' * 1_000_000}"),
        request("GET", JOBS, x_much="y" * 1_000_000),
        request("GET", JOBS, **{f"x_{number}": "z" * 50 for number in range(20_000)}),
        request("GET", JOBS, authorization="Bearer " + "a" * 1_000_000),
    ],
    ids=["address", "header", "headers", "token"],
)
def test_a_head_has_an_end(address: tuple[str, int], sent: bytes) -> None:
    refused = ask(address, sent)
    assert refused.code in {400, 414, 431}
    assert refused.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n folded: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : a\r\n\r\n",
        b"G\xc3\x84T / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_so(address: tuple[str, int], sent: bytes) -> None:
    refused = ask(address, sent)
    assert refused.code in {400, 404, 505}
    assert refused.status in {"INVALID_ARGUMENT", "NOT_FOUND"}


def test_http_of_before_is_answered(address: tuple[str, int]) -> None:
    with Wire(address) as wire:
        wire.send(f"GET {JOBS}/{KNOWN} HTTP/1.0\r\nauthorization: Bearer {ADMIN}\r\n\r\n".encode())
        assert wire.reply().data["jobId"] == KNOWN
        assert wire.rest() == b""


def test_who_asks_before_the_body_is_told_to_go_on(address: tuple[str, int]) -> None:
    body = json.dumps({"permissions": ["ml.jobs.get"]}).encode()
    sent = request("POST", f"{JOBS}/{KNOWN}:testIamPermissions", body, expect="100-continue")
    head, _, content = sent.partition(b"\r\n\r\n")
    with Wire(address) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.reply().code == 100
        wire.send(content)
        assert wire.reply().data == {"permissions": ["ml.jobs.get"]}


def test_a_host_that_is_none_is_in_no_document(address: tuple[str, int]) -> None:
    refused = ask(address, request("GET", "/$discovery/rest?version=v1", host='"><script>'))
    assert (refused.code, refused.status) == (400, "INVALID_ARGUMENT")
    found = ask(address, request("GET", "/$discovery/rest?version=v1", host="jobs.example.com:8080"))
    assert found.data["rootUrl"] == "http://jobs.example.com:8080/"
    behind = request("GET", "/$discovery/rest?version=v1", host="jobs.example.com", x_forwarded_proto="https")
    assert ask(address, behind).data["rootUrl"] == "https://jobs.example.com/"


def test_documents_ask_for_no_credential(address: tuple[str, int]) -> None:
    for path in ("/docs", "/openapi.json", "/$discovery/rest?version=v1"):
        assert ask(address, request("GET", path, authorization="")).code == 200
    refused = ask(address, request("GET", JOBS, authorization=""))
    assert (refused.code, refused.status) == (401, "UNAUTHENTICATED")
    assert refused.headers["www-authenticate"].startswith("Bearer")


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    # Head and body are two writes; asyncio sends the second at once on sockets that say they are TCP.
    found = listen("127.0.0.1", 0, credentials=False)
    try:
        assert [one.proto for one in found.sockets] == [socket.IPPROTO_TCP]
    finally:
        found.close()
