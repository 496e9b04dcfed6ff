from __future__ import annotations

import io
import json
import os
import stat
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import pytest

from encamp.api.audit import AuditedCall, AuditLog
from encamp.api.audit_entry import LONGEST_LINE, entry_of
from encamp.api.audit_left_out import OF_ADDRESS, OF_ALL, LeftOut
from encamp.api.bounded import is_secret_name
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.methods import METHODS, AuditKind
from encamp.errors import UsageError

AT = datetime(2026, 11, 22, 1, 2, 3, 456_000, UTC)
BY_ID = {method.id: method for method in METHODS}
CREATE, LIST, CANCEL = (BY_ID[f"projects.jobs.{verb}"] for verb in ("create", "list", "cancel"))
ANA = Caller("ana@example.com", frozenset({"user:ana@example.com"}))
SIGNED = "https://storage.googleapis.com/b/o?X-Goog-Signature=0a1b2c3d"


def called(**changes: Any) -> AuditedCall:
    usual: dict[str, Any] = {
        "at": AT,
        "insert_id": "0001",
        "method": CREATE,
        "project": "my-project",
        "resource": "projects/my-project/jobs/digits",
        "caller": ANA,
        "client_ip": "10.0.0.7",
        "user_agent": "google-cloud-sdk gcloud/528.0.0",
        "request": {"jobId": "digits", "trainingInput": {"args": ["--epochs", "3"]}},
        "response": {"jobId": "digits", "state": "QUEUED"},
        "granted": True,
        "code": 200,
        "message": "",
    }
    return AuditedCall(**(usual | changes))


def test_an_entry_is_one_of_cloud_audit_logs() -> None:
    assert entry_of(called(), now=AT) == {
        "logName": "projects/my-project/logs/cloudaudit.googleapis.com%2Factivity",
        "resource": {
            "type": "audited_resource",
            "labels": {
                "project_id": "my-project",
                "service": "ml.googleapis.com",
                "method": "google.cloud.ml.v1.JobService.CreateJob",
            },
        },
        "timestamp": "2026-11-22T01:02:03.456000Z",
        "receiveTimestamp": "2026-11-22T01:02:03.456000Z",
        "severity": "NOTICE",
        "insertId": "0001",
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "serviceName": "ml.googleapis.com",
            "methodName": "google.cloud.ml.v1.JobService.CreateJob",
            "resourceName": "projects/my-project/jobs/digits",
            "authenticationInfo": {"principalEmail": "ana@example.com"},
            "authorizationInfo": [
                {
                    "resource": "projects/my-project/jobs/digits",
                    "permission": "ml.jobs.create",
                    "granted": True,
                    "resourceAttributes": {},
                }
            ],
            "requestMetadata": {
                "callerIp": "10.0.0.7",
                "callerSuppliedUserAgent": "google-cloud-sdk gcloud/528.0.0",
                "requestAttributes": {"time": "2026-11-22T01:02:03.456000Z", "auth": {}},
                "destinationAttributes": {},
            },
            "request": {
                "@type": "type.googleapis.com/google.cloud.ml.v1.CreateJobRequest",
                "parent": "projects/my-project",
                "job": {"jobId": "digits", "trainingInput": {"args": ["--epochs", "3"]}},
            },
            "response": {
                "@type": "type.googleapis.com/google.cloud.ml.v1.Job",
                "jobId": "digits",
                "state": "QUEUED",
            },
            "status": {},
        },
    }


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_every_method_has_its_kind_and_its_messages(method: Any) -> None:
    found = entry_of(called(method=method, request={"@type": "evil", "name": "evil", "filter": "a"}))
    payload = found["protoPayload"]
    kind = "activity" if method.kind is AuditKind.ADMIN_ACTIVITY else "data_access"
    assert found["logName"].endswith(f"%2F{kind}")
    assert found["severity"] == ("NOTICE" if kind == "activity" else "INFO")
    service = "google.iam.v1" if "IamP" in method.id else "google.cloud.ml.v1"
    assert payload["request"]["@type"].startswith(f"type.googleapis.com/{service}.")
    assert payload["request"].get("name") in (None, "evil", "projects/my-project/jobs/digits")
    assert payload["response"]["@type"].startswith(("type.googleapis.com/google.", f"type.googleapis.com/{service}."))
    assert ("authorizationInfo" in payload) == (method.permission is not None)


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (403, "", 7),
        (401, "", 16),
        (400, "", 3),
        (400, "FAILED_PRECONDITION", 9),
        (409, "", 6),
        (409, "ABORTED", 10),
        (413, "", 2),
        (503, "", 14),
        (500, "INTERNAL", 13),
    ],
)
def test_refused_calls_say_why(code: int, status: str, expected: int) -> None:
    found = entry_of(called(code=code, status=status, message="Denied.", granted=False, response=None))
    assert found["severity"] == "ERROR"
    assert found["protoPayload"]["status"] == {"code": expected, "message": "Denied."}
    assert found["protoPayload"]["authorizationInfo"][0]["granted"] is False
    assert "response" not in found["protoPayload"]


def test_nobody_and_federated_people() -> None:
    nobody = entry_of(called(caller=None, granted=None, code=401, message="Who?"))["protoPayload"]
    assert (nobody["authenticationInfo"], "authorizationInfo" in nobody) == ({}, False)
    person = "principal://iam.googleapis.com/locations/global/workforcePools/acme/subject/eve"
    federated = entry_of(called(caller=Caller(person, frozenset({person}))))["protoPayload"]
    assert federated["authenticationInfo"] == {"principalSubject": person}


def written(log: AuditLog, path: Path, *calls: AuditedCall) -> list[dict[str, Any]]:
    for call in calls:
        log.note(call)
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_lines_are_appended_and_are_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    os.umask(umask := os.umask(0))
    os.umask(0)
    try:
        first = AuditLog(path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(written(first, path, called())) == 1
    first.close()
    second = AuditLog(path)
    assert [one["insertId"] for one in written(second, path, called(insert_id="2"))] == ["0001", "2"]
    second.close()


#: Everything that ends a line somewhere, moves a cursor, or forges a field.
NASTY = 'x\n{"severity":"INFO"}\r\n\x00\x1b[2J\x7f\x85\u2028\u2029\ud800"}\t'


def test_nothing_that_is_sent_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    nasty = called(
        resource=NASTY,
        caller=Caller(NASTY, frozenset()),
        client_ip=NASTY,
        user_agent=NASTY,
        request={NASTY: {NASTY: [NASTY]}},
        response={NASTY: NASTY},
        message=NASTY,
        code=400,
        project=NASTY,
        insert_id=NASTY,
    )
    found = written(log, path, nasty, called())
    log.close()
    assert [one["severity"] for one in found] == ["ERROR", "NOTICE"]
    data = path.read_bytes()
    assert data.count(b"\n") == 2
    assert all(32 <= byte < 127 for byte in data.replace(b"\n", b""))


SECRETS = ("0a1b2c3d", "hunter2hunter2", "ya29.verysecret", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "s3cr3t-value")


def test_no_secret_is_in_it() -> None:
    args = [
        SIGNED,
        "postgres://me:hunter2hunter2@h/db",
        "--password",
        "s3cr3t-value",
        "--db_password=s3cr3t-value",
        "api-key=s3cr3t-value",
        "-token",
        "s3cr3t-value",
        "ya29.verysecret",
        SECRETS[3],
        "--tokenizer",
        "bert",
    ]
    request = {"trainingInput": {"args": args, "env": {"DB_PASSWORD": "s3cr3t-value", "clientSecret": "s3cr3t-value"}}}
    call = called(
        request=request | {SIGNED: 1},
        response=request,
        message=f"no {SIGNED}",
        resource=f"projects/p/jobs/{SIGNED}",
        user_agent="me Bearer hunter2hunter2",
        client_ip="ya29.verysecret",
        code=400,
    )
    text = json.dumps(entry_of(call))
    assert [secret for secret in SECRETS if secret in text] == []
    assert '"--tokenizer", "bert"' in text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("--DB_PASSWORD=", True),
        ("clientSecret", True),
        ("apiKey", True),
        ("api_key", True),
        ("x-api-key", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("privateKey", True),
        ("token", True),
        ("tokenizer", False),
        ("max_tokens", False),
        ("pageToken", False),
        ("nextPageToken", False),
        ("key", False),
        ("secretary", False),
        ("", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def nested(depth: int, *, lists: bool) -> Any:
    found: Any = "end"
    for _ in range(depth):
        found = [found] if lists else {"a": found}
    return found


@pytest.mark.parametrize(
    "request_",
    [
        {"a": "x" * 1_000_000},
        {"a": ["x" * 5_000] * 1_000},
        {f"k{n}": n for n in range(50_000)},
        {"a": {f"k{n}": ["\u2028" * 2_000] * 50 for n in range(50_000 // 50)}},
        {"a": nested(900, lists=True)},
        {"a": nested(900, lists=False)},
        {"a": "\x00" * 20_000},
        {"a": float("nan"), "b": float("inf"), "c": 10**400, "d": None},
        {"\u2028" * 10_000: 1},
        {"a": ["\u2028" * 1_000, "\u2028" * 1_000, "\u2028" * 450]},
    ],
    ids=["text", "texts", "fields", "escapes", "lists", "objects", "controls", "numbers", "name", "most"],
)
def test_an_entry_is_bounded_whatever_was_sent(request_: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    long = "\u2028" * 100_000
    call = called(
        request=request_, response=request_, user_agent=long, resource=long, message=long, code=500, client_ip=long,
        insert_id=long, project=long, caller=Caller(long, frozenset()),
    )  # fmt: skip
    (found,) = written(log, path, call)
    log.close()
    assert found["protoPayload"]["request"]["job"] != {}
    assert found["protoPayload"]["methodName"] == "google.cloud.ml.v1.JobService.CreateJob"
    assert len(path.read_bytes()) <= LONGEST_LINE
    json.loads(path.read_bytes(), parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise AssertionError(name)


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    written(log, path, called(insert_id="1"))
    path.rename(tmp_path / "audit.log.1")
    assert [one["insertId"] for one in written(log, path, called(insert_id="2"))] == ["2"]
    path.unlink()
    assert [one["insertId"] for one in written(log, path, called(insert_id="3"))] == ["3"]
    log.close()


def test_a_line_that_was_cut_off_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b'{"half": ')
    log = AuditLog(path)
    log.note(called())
    log.close()
    half, whole = path.read_bytes().split(b"\n")[:2]
    assert half == b'{"half": '
    assert json.loads(whole)["insertId"] == "0001"


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)

    def work(number: int) -> None:
        for count in range(25):
            log.note(called(method=LIST, insert_id=f"{number}-{count}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [json.loads(line)["insertId"] for line in path.read_text().splitlines()]
    log.close()
    assert sorted(found) == sorted(f"{number}-{count}" for number in range(8) for count in range(25))


def test_a_full_disk_lets_nobody_change_anything(tmp_path: Path) -> None:
    path, free = tmp_path / "audit.log", [10**9]
    log = AuditLog(path, free=lambda: free[0])
    log.check(CREATE)
    free[0] = LONGEST_LINE
    with pytest.raises(ApiError, match="nothing was changed") as refused:
        log.check(CREATE)
    assert (refused.value.code, refused.value.status) == (503, "UNAVAILABLE")
    log.check(LIST)
    free[0] = 10**9
    log.check(CREATE)
    log.close()


class Breaking(io.RawIOBase):
    """A stream that takes nothing while it is broken."""

    def __init__(self) -> None:
        self.broken = False
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.broken:
            raise OSError(28, "No space left on device")
        self.taken += bytes(data)
        return len(data)


def test_what_cannot_be_written_now_is_written_later() -> None:
    stream = Breaking()
    log = AuditLog(cast("BinaryIO", stream))
    stream.broken = True
    log.note(called(insert_id="1"))
    log.note(called(insert_id="2", method=LIST))
    with pytest.raises(ApiError) as refused:
        log.check(CANCEL)
    assert refused.value.code == 503
    log.check(LIST)
    stream.broken = False
    log.check(CANCEL)
    log.note(called(insert_id="3"))
    assert [json.loads(line)["insertId"] for line in stream.taken.splitlines()] == ["1", "2", "3"]


def test_reading_goes_on_and_is_counted_once_too_much_waits() -> None:
    stream = Breaking()
    log = AuditLog(cast("BinaryIO", stream))
    stream.broken = True
    for number in range(1010):
        log.check(LIST)
        log.note(called(method=LIST, insert_id=str(number)))
    # What was changed all the same is not counted but kept.
    log.note(called(insert_id="change"))
    with pytest.raises(ApiError, match="reading goes on"):
        log.check(CREATE)
    stream.broken = False
    log.close()
    *found, count = [json.loads(line) for line in stream.taken.splitlines()]
    assert [one["insertId"] for one in found] == [*map(str, range(1000)), "change"]
    assert count["protoPayload"]["metadata"] == {
        "calls": 10,
        "since": count["protoPayload"]["metadata"]["since"],
        "by": {"ana@example.com": 10},
    }


def test_refusals_of_strangers_are_listed_in_a_bounded_number_and_then_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    refused = called(caller=None, granted=None, code=401, message="Who?")
    for number in range(5000):
        address = f"203.0.113.{number % 40}"
        if log.lists_stranger(address):
            log.note(replace(refused, client_ip=address))
    # Who is known is listed always.
    log.note(replace(refused, caller=ANA, code=403))
    log.close()
    *listed, count = [json.loads(line)["protoPayload"] for line in path.read_text().splitlines()]
    assert OF_ALL <= len(listed) <= OF_ALL + 20
    assert listed[-1]["authenticationInfo"] == {"principalEmail": "ana@example.com"}
    assert len(listed) - 1 + count["metadata"]["calls"] == 5000
    assert sum(count["metadata"]["by"].values()) == count["metadata"]["calls"]
    assert count["metadata"]["by"]["others"] > 0
    assert "unknown callers" in count["status"]["message"]


def test_one_address_leaves_room_for_others_and_gets_room_again() -> None:
    now = [0.0]
    left_out = LeftOut(lambda: now[0])
    assert [left_out.lists_stranger("203.0.113.7") for _ in range(50)] == [True] * OF_ADDRESS + [False] * 40
    assert left_out.lists_stranger("203.0.113.8")
    now[0] += 60
    assert left_out.lists_stranger("203.0.113.7")


def test_counts_are_written_after_a_minute() -> None:
    now = [AT]
    left_out = LeftOut(lambda: 0.0, lambda: now[0])
    for _ in range(OF_ADDRESS + 3):
        left_out.lists_stranger("203.0.113.7")
    assert left_out.due("p") == []
    now[0] = AT + timedelta(seconds=60)
    (entry,) = left_out.due("p")
    assert (entry["protoPayload"]["metadata"]["calls"], entry["timestamp"][:19]) == (3, "2026-11-22T01:03:03")
    assert left_out.due("p", over=True) == []


def test_an_entry_that_does_not_reach_the_disk_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, broken = tmp_path / "audit.log", [True]
    log, synced = AuditLog(path), list[int]()

    def fsync(descriptor: int) -> None:
        if broken[0]:
            raise OSError(28, "No space left on device")
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    log.note(called(insert_id="1"))
    broken[0] = False
    found = written(
        log, path, called(insert_id="2"), called(insert_id="3", method=LIST), called(insert_id="4", code=403)
    )
    assert [one["insertId"] for one in found] == ["1", "1", "2", "3", "4"]
    # A change that was made is waited for; what only reads, and what was refused, is not.
    assert len(synced) == 1
    log.close()


def test_a_device_that_is_full_loses_no_entry_silently(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Path("/dev/full"))
    log.check(CREATE)
    log.note(called(insert_id="lost-1"))
    with pytest.raises(ApiError):
        log.check(CREATE)
    log.close()
    assert any("lost-1" in record.getMessage() for record in caplog.records)
    assert not any("\n" in record.getMessage() for record in caplog.records)


def test_a_place_that_cannot_be_written_to_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="audit log cannot be opened"):
        AuditLog(tmp_path / "missing" / "audit.log")
    with pytest.raises(UsageError):
        AuditLog(tmp_path)
