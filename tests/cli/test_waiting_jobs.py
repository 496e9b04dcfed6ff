"""Jobs that were handed in, as a user meets them before anybody has begun them, and how a driver begins one."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet

from encamp.errors import EngineError, ExitCode, PlanError, SpecError, UsageError
from encamp.plan.names import short_name
from encamp.run.lifecycle.ending import RunResult
from encamp.run.store.encryption import KEY_VARIABLE, Cipher
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State
from encamp.run.store.submissions import Submission, Submissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from encamp.run.lifecycle.driver import JobRequest
    from encamp.run.store.journal import RunRecord

CANARY = "canary-77b1"
TRAINING = {
    "region": "us-central1",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer-1.tar.gz"],
    "pythonModule": "trainer.task",
    "args": [f"https://storage.googleapis.com/data?X-Goog-Signature={CANARY}"],
    "scheduling": {"maxWaitTime": "3600s"},
}
JOB = {"jobId": "rnn", "labels": {"team": "a"}, "trainingInput": TRAINING}


@dataclass
class Queue:
    """What waits in the record of the machine."""

    records: Records
    submissions: Submissions

    def add(self, job_id: str = "rnn", **other: Any) -> None:
        job = {**JOB, "jobId": job_id, **other}
        name = short_name("sandbox-encamp", "sandbox", job_id)
        self.submissions.submit(Submission(job_id, name, "sandbox", job, "ana@example.com"))

    def record(self, job_id: str = "rnn") -> RunRecord:
        found = self.records.record(job_id)
        assert found is not None
        return found


@pytest.fixture
def queue(encamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    del encamp
    monkeypatch.setenv(KEY_VARIABLE, Fernet.generate_key().decode())
    records = Records.open(None, tmp_path)
    yield Queue(records, Submissions(records, Cipher.open(tmp_path)))
    records.close()


def test_what_waits_is_listed_and_described_with_its_place(encamp: Callable[..., Result], queue: Queue) -> None:
    queue.add("first")
    queue.add()
    newest, oldest = encamp("list").output.splitlines()[1:]
    assert newest.split()[:2] == ["rnn", "QUEUED"]
    assert newest.endswith("waits, place 2")
    assert oldest.endswith("waits, place 1")
    queue.records.set_labels("rnn", {"team": "b"})
    found = json.loads(encamp("describe", "rnn", "--format", "json").output)
    assert (found["state"], found["jobPosition"], found["labels"]) == ("QUEUED", "2", {"team": "b"})
    assert found["trainingInput"]["pythonModule"] == "trainer.task"
    assert (found["encamp"]["environment"], found["encamp"]["startedBy"]) == ("sandbox", "ana@example.com")
    assert CANARY not in json.dumps(found)


def test_what_waits_is_cancelled_at_once(encamp: Callable[..., Result], queue: Queue) -> None:
    queue.add()
    queue.add("other")
    ran = encamp("cancel", "rnn")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "rnn is CANCELLED\n", "rnn had not begun\n")
    assert encamp("cancel", "other", "--no-wait").stdout == "other is CANCELLED\n"
    assert (queue.record().state, queue.record("other").state) == (State.CANCELLED, State.CANCELLED)
    again = encamp("cancel", "rnn")
    assert again.exit_code == ExitCode.BAD_INPUT
    assert "this job has ended: it is CANCELLED since" in again.stderr
    ran = encamp("attach", "rnn")
    assert ran.exit_code == ExitCode.CANCELLED


def test_logs_say_that_a_job_waits_or_never_began(encamp: Callable[..., Result], queue: Queue) -> None:
    queue.add()
    with pytest.raises(UsageError, match="waits until a driver is free: place 1 in the queue; it has written") as said:
        raise encamp("logs", "rnn").exception or AssertionError
    assert said.value.hint == "`encamp logs --follow rnn` waits for it"
    queue.submissions.fail("rnn", "its key is another")
    for words in (("logs", "rnn"), ("logs", "rnn", "--follow")):
        with pytest.raises(UsageError, match="is FAILED and never started, so it has no logs: its key is another"):
            raise encamp(*words).exception or AssertionError


def test_who_attaches_waits_and_hears_the_place_and_the_end(
    encamp: Callable[..., Result], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add("first")
    queue.add()
    steps: Iterator[Callable[[], Any]] = iter(
        [
            lambda: queue.submissions.cancel("first", "bob"),
            lambda: None,
            lambda: queue.submissions.claim("sandbox"),
            lambda: queue.submissions.fail("rnn", "it cannot be opened"),
        ]
    )

    def sleep(_: float) -> None:
        next(steps)()

    monkeypatch.setattr(time, "sleep", sleep)
    ran = encamp("attach", "rnn")
    said = [line.partition("] ")[2] for line in ran.output.splitlines()[:4]]
    assert said == [
        "the job waits until a driver is free: place 2 in the queue",
        "the job waits until a driver is free: place 1 in the queue",
        "the job is about to be begun",
        "the job is FAILED: it cannot be opened",
    ]
    assert ran.exit_code == ExitCode.JOB_FAILED


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> list[JobRequest]:
    """What drivers are asked to run; it all fails."""
    made: list[JobRequest] = []

    def run_job(request: JobRequest, _: Any) -> RunResult:
        made.append(request)
        return RunResult("waits", Outcome(State.FAILED, "7"), None, (), "gs://b/")

    monkeypatch.setattr("encamp.run.lifecycle.driver.run_job", run_job)
    return made


def test_a_driver_gets_the_job_as_it_was_sent_with_the_labels_of_now(
    encamp: Callable[..., Result], queue: Queue, driven: list[JobRequest]
) -> None:
    queue.add()
    queue.records.set_labels("rnn", {"team": "b"})
    assert encamp("drive", "--submitted", "rnn").exit_code == ExitCode.JOB_FAILED
    (request,) = driven
    assert request.job["trainingInput"]["args"] == TRAINING["args"]
    assert (request.job["labels"], request.environment) == ({"team": "b"}, "sandbox")
    assert (request.submitted, request.detached) == (True, True)
    assert 0 < request.waited < 600
    assert request.started_by is not None
    assert request.started_by.account == "ana@example.com"
    assert [one.driver is not None for one in queue.submissions.open("sandbox")] == [True]


def test_a_job_that_another_key_encrypted_has_failed_and_says_so(
    encamp: Callable[..., Result], queue: Queue, driven: list[JobRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add()
    monkeypatch.setenv(KEY_VARIABLE, Fernet.generate_key().decode())
    assert isinstance(encamp("drive", "--submitted", "rnn").exception, UsageError)
    record = queue.record()
    assert record.outcome is not None
    assert (record.state, record.torn_down, driven) == (State.FAILED, True, [])
    assert "encrypted by another key, or is damaged" in record.outcome.message
    assert "submit it again under another id" in record.outcome.message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"trainingInput": {**TRAINING, "region": "nowhere"}}, "nowhere"),
        ({"encamp": {"packagePath": "trainer"}}, "packagePath"),
    ],
)
def test_a_job_that_cannot_be_planned_has_failed(
    encamp: Callable[..., Result], queue: Queue, driven: list[JobRequest], wrong: dict[str, Any], words: str
) -> None:
    queue.add(**wrong)
    ran = encamp("drive", "--submitted", "rnn")
    assert isinstance(ran.exception, SpecError | PlanError | UsageError)
    outcome = queue.record().outcome
    assert outcome is not None
    assert outcome.message.startswith("the job could not be begun: ")
    assert words in outcome.message
    assert driven == []


def test_what_may_be_better_the_next_time_leaves_the_job_waiting(
    encamp: Callable[..., Result], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_job(*_: Any) -> RunResult:
        raise EngineError("the environment is not up")

    monkeypatch.setattr("encamp.run.lifecycle.driver.run_job", run_job)
    queue.add()
    assert isinstance(encamp("drive", "--submitted", "rnn").exception, EngineError)
    assert queue.record().waiting
    assert [one.trouble for one in queue.submissions.open("sandbox")] == ["the environment is not up"]


def test_nobody_drives_what_does_not_wait(
    encamp: Callable[..., Result], queue: Queue, driven: list[JobRequest]
) -> None:
    queue.add()
    queue.submissions.cancel("rnn", "ana")
    for job in ("rnn", "never"):
        with pytest.raises(UsageError, match="does not wait any more"):
            raise encamp("drive", "--submitted", job).exception or AssertionError
    with pytest.raises(UsageError, match="names a job that is on record"):
        raise encamp("drive", "--submitted", "rnn", "--region", "us-central1").exception or AssertionError
    assert driven == []
