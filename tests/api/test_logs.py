from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from encamp.api import logs as logs_module
from encamp.api.access import Access, JobGrants
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.logs import LogEntries
from encamp.cloud.rest import RestError
from encamp.run.history.log_source import FoundTexts, LogsMovedError
from encamp.run.logs.log_times import Frames
from encamp.run.store.journal import Entry, RunRecord, fold
from encamp.run.times import micros, written
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT = "sandbox-encamp"
A, B, TRIAL = "master-replica-0", "worker-replica-0", "trial-3-master-replica-0"
NOON = 1_767_268_800
ADA = Caller("ada@example.com", frozenset({"user:ada@example.com"}), admin=True)
VIC = Caller("vic@example.com", frozenset({"user:vic@example.com"}))
EVE = Caller("eve@example.com", frozenset({"user:eve@example.com"}))
GCLOUD = (
    "google-cloud-sdk gcloud/528.0.0 command/gcloud.ai-platform.jobs.stream-logs invocation-id/0 environment/None "
    "environment-version/None client-os/LINUX"
)
FIRST = "1970-01-01T01:00:00.000000000Z"
KIND = '(resource.type="ml_job" OR resource.type="cloudml_job")'


@dataclass
class FakeTexts:
    logs: dict[str, bytes] = field(default_factory=dict)
    frames: Frames = field(default_factory=Frames)

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.frames.ends

    def read(self, replica: str, begin: int, end: int) -> bytes:
        return self.logs[replica][begin:end]

    def come(self, at: float, **added: bytes) -> None:
        """Texts that came at seconds after noon."""
        for name, text in added.items():
            replica = name.replace("_", "-")
            self.logs[replica] = self.logs.get(replica, b"") + text
        ends = {name.replace("_", "-"): len(self.logs[name.replace("_", "-")]) for name in added}
        line = json.dumps({"at": written(int((NOON + at) * 1e6)), "ends": ends})
        self.frames.feed(f"{line}\n".encode())


class FakeJob:
    """A job whose states and logs a test tells."""

    def __init__(self, job_id: str, creator: str = "dev@example.com") -> None:
        self.job_id = job_id
        self.creator = creator
        self.entries: list[Entry] = []
        self.texts = FakeTexts()
        self.whole = False
        self.state(0, "QUEUED")

    def state(self, at: float, state: str) -> None:
        self.note(at, "state", {"state": state})

    def note(self, at: float, kind: str, data: dict[str, Any]) -> None:
        self.entries.append(Entry(datetime.fromtimestamp(NOON + at, UTC), kind, data))

    def end(self, at: float, state: str, message: str = "") -> None:
        self.note(at, "outcome", {"state": state, "message": message})
        self.state(at, state)

    @property
    def record(self) -> RunRecord:
        return fold(self.job_id, "n", self.entries[0].at, self.entries)


class FakeJobs:
    def __init__(self, *jobs: FakeJob) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.looks = 0
        self.trouble: list[Exception] = []

    def record(self, job_id: str) -> RunRecord | None:
        return self.jobs[job_id].record if job_id in self.jobs else None

    def grants(self, job_id: str) -> JobGrants | None:
        return JobGrants(self.jobs[job_id].creator, None) if job_id in self.jobs else None

    def newest(self) -> list[str]:
        return list(self.jobs)[::-1]

    def look(self, record: RunRecord) -> FoundTexts:
        self.looks += 1
        if self.trouble:
            raise self.trouble.pop(0)
        job = self.jobs[record.job_id]
        return FoundTexts(job.texts, job.whole)


def _entries(jobs: FakeJobs, clock: Any = lambda: 0.0) -> LogEntries:
    team = {"name": "lookers", "members": ["user:vic@example.com"], "roles": ["ml.viewer"]}
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "b-1", "access": {"teams": [team]}}
    access = Access(parse_environment(data, project=PROJECT, source="the tests"))
    return LogEntries(PROJECT, jobs, jobs, access, clock=clock)


def _body(wanted: str = 'resource.labels.job_id="J"', **more: Any) -> dict[str, Any]:
    return {"resourceNames": [f"projects/{PROJECT}"], "filter": wanted, "pageSize": 1000, **more}


def _texts(answer: dict[str, Any]) -> list[str]:
    return [entry.get("textPayload", "") for entry in answer.get("entries", [])]


@pytest.fixture
def job() -> FakeJob:
    made = FakeJob("J")
    made.state(1, "PREPARING")
    made.texts.come(2, master_replica_0=b"one\ntwo\n", worker_replica_0=b"w\n")
    made.state(3, "RUNNING")
    made.texts.come(4, master_replica_0=b"three\n")
    return made


def test_entries_are_what_gcloud_reads(job: FakeJob) -> None:
    job.texts.come(5, trial_3_master_replica_0=b"of a trial\n")
    found = _entries(FakeJobs(job)).list(ADA, _body())["entries"]
    assert found[2] == {
        "insertId": f"{A}-000000000000000",
        "labels": {"ml.googleapis.com/job_id": "J", "ml.googleapis.com/task_name": A},
        "logName": f"projects/{PROJECT}/logs/{A}",
        "resource": {"type": "ml_job", "labels": {"job_id": "J", "project_id": PROJECT, "task_name": A}},
        "severity": "INFO",
        "timestamp": "2026-01-01T12:00:02.000000Z",
        "receiveTimestamp": "2026-01-01T12:00:02.000000Z",
        "textPayload": "one",
    }
    tasks = [entry["resource"]["labels"]["task_name"] for entry in found]
    assert tasks == ["service", "service", A, A, B, "service", A, A]
    assert found[-1]["labels"]["ml.googleapis.com/trial_id"] == "3"
    assert len({len(entry["timestamp"]) for entry in found}) == 1
    places = [(entry["timestamp"], entry["insertId"]) for entry in found]
    assert places == sorted(set(places))


def test_the_service_tells_each_state_and_the_end_after_the_last_line(job: FakeJob) -> None:
    jobs = FakeJobs(job)
    entries = _entries(jobs)
    job.end(6, "FAILED", "master-replica-0 exited with 7")
    assert _texts(entries.list(ADA, _body()))[-1] == "three"
    # The last text came after the driver had seen the end.
    job.texts.come(7, master_replica_0=b"last\n")
    job.whole = True
    found = entries.list(ADA, _body())["entries"]
    assert [(entry["severity"], entry.get("textPayload")) for entry in found[-2:]] == [
        ("INFO", "last"),
        ("ERROR", "The job has failed: master-replica-0 exited with 7"),
    ]
    assert found[-1]["timestamp"] == "2026-01-01T12:00:07.000001Z"
    said = [entry["textPayload"] for entry in found if entry["labels"]["ml.googleapis.com/task_name"] == "service"]
    assert len(said) == 4
    job.note(60, "labels", {"labels": {}})
    job.note(61, "gone", {})
    assert entries.list(ADA, _body())["entries"] == found


@pytest.mark.parametrize(
    ("states", "severity", "said"),
    [
        (["SUCCEEDED"], "INFO", "The job has completed successfully."),
        (["CANCELLING", "CANCELLED"], "WARNING", "The job was cancelled: ada did"),
        (["CANCELLING"], "INFO", "The job is being cancelled."),
    ],
)
def test_ends_in_words(states: list[str], severity: str, said: str) -> None:
    job = FakeJob("J")
    job.whole = True
    job.note(1, "outcome", {"state": "CANCELLED", "message": "ada did"})
    for state in states:
        job.state(2, state)
    last = _entries(FakeJobs(job)).list(ADA, _body())["entries"][-1]
    assert (last["severity"], last["textPayload"]) == (severity, said)


def test_what_a_submitter_should_know_is_told_by_the_log() -> None:
    job = FakeJob("J")
    warning = "network is checked, but the environment's own is used by this version"
    job.entries[:0] = [Entry(job.entries[0].at, "submitted", {"environment": "sandbox", "warnings": [warning]})]
    found = _entries(FakeJobs(job)).list(ADA, _body())["entries"]
    assert [(one["severity"], one["textPayload"]) for one in found] == [
        ("INFO", "The job was accepted and is queued."),
        ("WARNING", warning),
    ]


def test_a_line_that_is_json_says_its_severity_itself(job: FakeJob) -> None:
    lines = [
        b'{"severity": "warning", "message": "hot", "step": 3}',
        b'{"levelname": "FATAL", "message": "dead"}',
        b'{"message": "no severity"}',
        b'{"severity": "ERROR", "message": 5}',
        b'{"severity": "ERROR"',
        b"{" * 3000 + b"}",
        b"\xff\x00\r caf\xc3\xa9",
    ]
    job.texts.come(9, worker_replica_0=b"\n".join(lines) + b"\n")
    found = _entries(FakeJobs(job)).list(
        ADA, _body(f'resource.labels.job_id="J" timestamp>="{written((NOON + 9) * 10**6)}"')
    )
    shown = [(one["severity"], one.get("jsonPayload") or one["textPayload"]) for one in found["entries"]]
    assert shown[:3] == [
        ("WARNING", {"message": "hot", "step": 3}),
        ("CRITICAL", {"message": "dead", "levelname": "FATAL"}),
        ("INFO", '{"message": "no severity"}'),
    ]
    assert [severity for severity, _ in shown[3:]] == ["INFO"] * 4
    assert shown[-1][1] == "\\xff\x00\r café"


def test_lines_have_the_severity_of_their_stream_or_of_their_record(job: FakeJob) -> None:
    written_lines = {
        b"epoch 1": "INFO",
        b"Traceback (most recent call last): \t ": "ERROR",
        b"WARNING:root:it is hot \t ": "WARNING",
        b"INFO:trainer.task:loss 0.5 \t ": "INFO",
        b"CRITICAL:a.b:c": "CRITICAL",
        b"DEBUG:x:y \t ": "DEBUG",
        b"I1122 10:00:00.000000 140 task.py:12] ready \t ": "INFO",
        b"W1122 10:00:00.000000 140 /a/b.py:12] careful \t ": "WARNING",
        b"F1122 10:00:00.000000 140 task.cc:12] Check failed \t ": "CRITICAL",
        b"2026-11-22 10:00:00.123456: I tensorflow/core/platform/cpu.cc:1] no AVX \t ": "INFO",
        b"2026-11-22 10:00:00.123456: E external/xla.cc:1] no GPU \t ": "ERROR",
        b'{"severity": "NOTICE", "message": "m"} \t ': "NOTICE",
        # What only looks like one counts by its stream.
        b"ERROR: it failed": "INFO",
        b"WARNING:no name \t ": "ERROR",
        b"INFO \t ": "ERROR",
    }
    job.texts.come(9, worker_replica_0=b"\n".join(written_lines) + b"\n")
    body = _body(f'resource.labels.job_id="J" timestamp>="{written((NOON + 9) * 10**6)}"')
    found = _entries(FakeJobs(job)).list(ADA, body)["entries"]
    assert [one["severity"] for one in found] == list(written_lines.values())
    assert not any(str(one.get("textPayload", "")).endswith(" \t ") for one in found)
    errors = _entries(FakeJobs(job)).list(ADA, _body('resource.labels.job_id="J" severity>=ERROR'))["entries"]
    assert len(errors) == 6


def test_pages_in_both_orders_give_every_entry_once(job: FakeJob) -> None:
    entries = _entries(FakeJobs(job))
    for order in ("timestamp asc", "timestamp desc"):
        whole = entries.list(ADA, _body(orderBy=order))["entries"]
        pages: list[Any] = []
        token = None
        while True:
            answer = entries.list(ADA, _body(orderBy=order, pageSize=2, pageToken=token))
            pages += answer["entries"]
            token = answer.get("nextPageToken")
            if token is None:
                break
            assert len(answer["entries"]) == 2
        assert pages == whole
    assert whole == entries.list(ADA, _body())["entries"][::-1]


def test_pages_are_bounded_by_what_they_hold_and_what_was_read(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = _entries(FakeJobs(job))
    whole = entries.list(ADA, _body())["entries"]
    for name in ("_ANSWER_BYTES", "_READ_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(logs_module, name, 1300)
            pages: list[Any] = []
            body = _body()
            while body.get("pageToken") != "":
                answer = entries.list(ADA, body)
                pages += answer.get("entries", [])
                body = _body(pageToken=answer.get("nextPageToken", ""))
            assert pages == whole
    monkeypatch.setattr(logs_module, "_READ_BYTES", 1300)
    sparse = entries.list(ADA, _body('resource.labels.job_id="J" textPayload:"three"'))
    assert "entries" not in sparse
    assert sparse["nextPageToken"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, "INVALID_ARGUMENT", "resourceNames is missing"),
        (_body(resourceNames=[]), "INVALID_ARGUMENT", "resourceNames is missing"),
        (_body(resourceNames=["projects/other"]), "PERMISSION_DENIED", "Only the entries of"),
        (_body(resourceNames=[5]), "PERMISSION_DENIED", "Only the entries of"),
        (_body(resourceNames="x"), "INVALID_ARGUMENT", "Invalid value at 'resourceNames'"),
        (_body(projectIds=["other"]), "PERMISSION_DENIED", "Only the entries of"),
        (_body(filter=5), "INVALID_ARGUMENT", "Invalid value at 'filter'"),
        (_body("("), "INVALID_ARGUMENT", "Unparseable filter"),
        (_body(" OR ".join(f'resource.labels.job_id="J{n}"' for n in range(21))), "INVALID_ARGUMENT", "more than 20"),
        (_body(orderBy="severity"), "INVALID_ARGUMENT", "orderBy"),
        (_body(pageSize=-1), "INVALID_ARGUMENT", "pageSize"),
        (_body(pageSize=True), "INVALID_ARGUMENT", "pageSize"),
        (_body(pageSize="many"), "INVALID_ARGUMENT", "pageSize"),
        (_body(pageSize=[1]), "INVALID_ARGUMENT", "pageSize"),
        (_body(pageToken="x"), "INVALID_ARGUMENT", "pageToken"),
        (_body(pageToken="WyJhIiwiYiIsImMiXQ=="), "INVALID_ARGUMENT", "pageToken"),
        (_body(pageToken="é"), "INVALID_ARGUMENT", "pageToken"),
        (_body(pageTokens="x"), "INVALID_ARGUMENT", 'Unknown name "pageTokens"'),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_with_a_reason(body: dict[str, Any], status: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        _entries(FakeJobs(FakeJob("J"))).list(ADA, body)
    assert refused.value.status == status
    assert words in refused.value.message


def test_entries_need_the_permission_to_get_the_job(job: FakeJob) -> None:
    other = FakeJob("K", creator="eve@example.com")
    other.texts.come(1, master_replica_0=b"of eve\n")
    entries = _entries(FakeJobs(job, other))
    assert "one" in _texts(entries.list(VIC, _body()))
    assert "of eve" in _texts(entries.list(EVE, _body('resource.labels.job_id="K"')))
    refusals = set()
    for name in ("J", "none_such"):
        with pytest.raises(ApiError) as refused:
            entries.list(EVE, _body(f'resource.labels.job_id="{name}"'))
        assert refused.value.status == "PERMISSION_DENIED"
        refusals.add(refused.value.message.replace(name, "X"))
    assert len(refusals) == 1
    with pytest.raises(ApiError, match="PERMISSION_DENIED"):
        entries.list(EVE, _body('resource.labels.job_id="K" OR resource.labels.job_id="J"'))
    # Without a job in the filter, what the caller may get.
    assert _texts(entries.list(EVE, _body("")))[1:] == ["of eve"]
    assert {"one", "of eve"} <= set(_texts(entries.list(ADA, _body(""))))
    assert entries.list(VIC, _body('resource.labels.job_id="none_such"')) == {}
    assert entries.list(ADA, _body('resource.labels.job_id="../J"')) == {}


def test_a_filter_without_a_job_looks_at_a_bounded_number_of_jobs() -> None:
    jobs = FakeJobs(*(FakeJob(f"J{number}") for number in range(60)))
    found = _entries(jobs).list(ADA, _body(""))["entries"]
    assert jobs.looks == 20
    assert {entry["resource"]["labels"]["job_id"] for entry in found} == {f"J{number}" for number in range(40, 60)}


def test_logs_that_were_sealed_meanwhile_are_looked_for_again(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "_LOOK_SECONDS", 0)
    jobs = FakeJobs(job)
    jobs.trouble = [LogsMovedError("J")]
    assert "one" in _texts(_entries(jobs).list(ADA, _body()))
    jobs.trouble = [LogsMovedError("J")] * 10
    with pytest.raises(ApiError, match="UNAVAILABLE"):
        _entries(jobs).list(ADA, _body())
    jobs.trouble = [RestError("the bucket is away", status=503, where="gs://b")]
    with pytest.raises(ApiError, match="UNAVAILABLE") as away:
        _entries(jobs).list(ADA, _body())
    assert "the bucket is away" in away.value.message


def test_who_streams_is_told_the_end_once_the_last_entry_was_read(job: FakeJob) -> None:
    moment = [0.0]
    entries = _entries(FakeJobs(job), lambda: moment[0])
    assert not entries.unread(ADA, "J", GCLOUD), "nobody streams yet"
    entries.list(ADA, _body())
    job.end(6, "SUCCEEDED")
    assert entries.unread(ADA, "J", GCLOUD)
    assert entries.unread(ADA, "J", GCLOUD.replace("gcloud.ai-platform", "gcloud.beta.ml-engine"))
    assert entries.unread(ADA, "J", GCLOUD.replace("stream-logs", "submit.training"))
    assert not entries.unread(ADA, "J", GCLOUD.replace("stream-logs", "describe"))
    assert not entries.unread(ADA, "J", "my own client")
    assert not entries.unread(VIC, "J", GCLOUD)
    job.whole = True
    entries.list(ADA, _body(f'resource.labels.job_id="J" timestamp<"{written((NOON + 6) * 10**6)}"'))
    assert entries.unread(ADA, "J", GCLOUD), "its end was not asked for"
    entries.list(ADA, _body(pageSize=1))
    assert entries.unread(ADA, "J", GCLOUD), "there was more than a page"
    entries.list(ADA, _body())
    assert not entries.unread(ADA, "J", GCLOUD)


def test_the_end_is_not_kept_back_for_ever(job: FakeJob) -> None:
    moment = [0.0]
    entries = _entries(FakeJobs(job), lambda: moment[0])
    job.end(6, "SUCCEEDED")
    for _ in range(100):
        entries.list(ADA, _body())
        if not entries.unread(ADA, "J", GCLOUD):
            break
        moment[0] += 60
    assert moment[0] == 900
    entries.list(VIC, _body())
    moment[0] += 3601
    assert not entries.unread(VIC, "J", GCLOUD)


class Listing(Protocol):
    """What a stream asks."""

    def list(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]: ...

    def unread(self, caller: Caller, job_id: str, user_agent: str) -> bool: ...


@dataclass
class Stream:
    """gcloud 528's stream, as command_lib/logs/stream.py of its sources does it, told the time by the test."""

    entries: Listing
    interval: int
    job_id: str = "J"
    timestamp: str = FIRST
    insert_id: str = ""
    by_id: bool = False
    empty: int = 0
    over: bool = False
    shown: list[tuple[str, str]] = field(default_factory=list)

    def tick(self, second: int, *, ended: bool) -> None:
        if second % self.interval == 0:
            self._poll(NOON + second)
        if second % 10 == 0 and self.empty > 1:
            self.over = ended and not self.entries.unread(ADA, self.job_id, GCLOUD)

    def _poll(self, now: int) -> None:
        low = f'timestamp>="{self.timestamp}"'
        if self.by_id:
            low = f'((timestamp="{self.timestamp}" AND insertId>"{self.insert_id}") OR timestamp>"{self.timestamp}")'
        high = f'timestamp<"{written((now - 5) * 10**6)}"'
        wanted = f'{KIND} AND resource.labels.job_id="{self.job_id}" AND {low} AND {high}'
        body = _body(wanted, orderBy="timestamp asc")
        fresh = [entry for entry in self.entries.list(ADA, body).get("entries", []) if self._is_new(entry)]
        self.empty = 0 if fresh else self.empty + 1
        for entry in fresh:
            self.shown.append((entry["resource"]["labels"]["task_name"], entry["textPayload"]))

    def _is_new(self, entry: dict[str, Any]) -> bool:
        place = (entry["timestamp"], entry["insertId"])
        if place[0] < self.timestamp or (place[0] == self.timestamp and place[1] <= self.insert_id):
            return False
        self.by_id = place[0] == self.timestamp
        self.timestamp, self.insert_id = place
        return True


@pytest.mark.parametrize("seed", range(25))
def test_gclouds_stream_shows_every_line_once_and_in_order(seed: int) -> None:
    """Whatever its interval, also where a quiet job writes its last lines just before its end."""
    draw = random.Random(seed)  # noqa: S311 - cases of a test
    job = FakeJob("J")
    end, sealed = draw.randrange(5, 300), draw.randrange(1, 12)
    times = sorted({*draw.sample(range(2, end + 1), k=min(draw.randrange(4), end - 1)), end, end + sealed})
    number = 0
    stream = Stream(_entries(FakeJobs(job)), draw.choice([1, 3, 7, 10, 60]))
    for second in range(2000):
        if second in times:
            added = {}
            for name in draw.sample(["master_replica_0", "worker_replica_0", "worker_replica_10"], k=2):
                added[name] = b"".join(b"%d\n" % (number + index) for index in range(draw.randrange(1, 4)))
                number += 3
            job.texts.come(second + draw.random() * 0.9, **added)
        if second == end:
            job.end(second + 0.95, "SUCCEEDED")
        job.whole = second > end + sealed
        stream.tick(second, ended=second >= end)
        if stream.over:
            break
    assert stream.over
    for replica, text in job.texts.logs.items():
        assert [text for task, text in stream.shown if task == replica] == text.decode().splitlines()
    assert stream.shown[-1] == ("service", "The job has completed successfully.")


def test_times_of_the_record_and_of_the_logs_are_the_same_kind() -> None:
    assert written(micros(datetime(2026, 1, 1, 12, tzinfo=UTC))) == "2026-01-01T12:00:00.000000Z"
