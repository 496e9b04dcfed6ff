"""Who is told that a job has ended, once, and what of it is kept: with a real record and real services."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.notices.services import TOKEN, Webhook, webhook

from encamp.cloud.rest import GoogleClient
from encamp.extras import EXTRAS
from encamp.run.results.notices import NOTICE, Notifier, message, notices_of, unready
from encamp.run.results.receipt import KeptResults, build_receipt, receipt_text, short_receipt
from encamp.run.store.intent import Intent
from encamp.run.store.journal import RunRecord
from encamp.run.store.records import LeaseLostError, Records
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.plan.notices import NoticePlan

pytestmark = pytest.mark.slow

RECEIPT = {"cost": {"amount": 1.25}}
FAILED = Outcome(State.FAILED, "worker 1 exited with 7")
SUCCEEDED = Outcome(State.SUCCEEDED)
EVERY = {"target": "team", "states": ["SUCCEEDED", "FAILED", "CANCELLED"]}


def intent(*notices: dict[str, Any]) -> Intent:
    return Intent(
        job_id="digits",
        name="d",
        environment="lab",
        stack="job-d",
        folder="",
        project="p",
        cluster="projects/p/locations/r/clusters/c",
        namespace="n",
        artifacts_bucket="artifacts",
        prefix="jobs/digits/",
        labels={},
        deadline=0.0,
        max_running_seconds=60.0,
        max_wait_seconds=None,
        replicas=("master-replica-0",),
        machines={},
        job_dir="gs://artifacts/jobs/digits/output",
        notices=tuple(notices),
    )


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as service:
        yield service


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the stack config of the environment "lab" with these targets, in a project of its own."""
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    monkeypatch.setattr("encamp.run.results.notices.project_folder", lambda: project)

    def write(*targets: dict[str, Any]) -> None:
        spec: dict[str, Any] = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts"}
        if targets:
            spec["notices"] = {"targets": list(targets)}
        config = {"config": {"gcp:project": "sandbox-lab", "encamp:environment": spec}}
        (project / "stacks" / "Pulumi.lab.yaml").write_text(yaml.safe_dump(config))

    write()
    return write


class Job:
    """A job that is brought to its end, perhaps by several finishers."""

    def __init__(self, folder: Path, *notices: dict[str, Any]) -> None:
        self.records = Records.open(None, folder)
        self.intent = intent(*notices)
        self.lease = self.records.begin("digits", "d", self.intent.to_json())
        self.lines: list[str] = []
        for state in (State.PREPARING, State.RUNNING):
            self.records.move(self.lease, state)

    def ends(self, outcome: Outcome, trouble: str | None = None) -> bool:
        record = self.record
        if outcome.state not in record.times:
            self.records.move(self.lease, outcome.state)
        notifier = Notifier(self.records, self.lease, self.intent, GoogleClient(), self.lines.append)
        return notifier.tell(outcome, RECEIPT, trouble)

    def is_taken_over(self) -> None:
        self.records.release(self.lease)
        self.lease = self.records.adopt("digits", "d", self.intent.to_json())

    @property
    def record(self) -> RunRecord:
        found = self.records.record("digits")
        assert found is not None
        return found

    @property
    def told(self) -> list[dict[str, Any]]:
        return [entry.data for entry in self.record.entries if entry.kind == NOTICE]

    def receipt(self) -> dict[str, Any]:
        return build_receipt(
            self.record,
            steps=[],
            seconds={},
            digests={},
            hourly={},
            prices_of=None,
            logs={},
            left=[],
            kept=KeptResults(None, "gs://artifacts/jobs/digits/"),
            gone=None,
        )


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(*notices: dict[str, Any]) -> Job:
        made.append(Job(tmp_path / "record", *notices))
        return made[-1]

    yield make
    for one in made:
        one.records.close()


def test_a_notice_says_what_became_of_the_job_and_where_everything_is(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare({"name": "team"})
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    one = job()
    assert one.ends(FAILED, "the cluster is busy")
    (taken,) = hook.taken
    assert (taken["title"], taken["type"]) == ("encamp: digits FAILED", "failure")
    assert taken["message"].split("\n") == [
        "environment: lab (p)",
        "why: worker 1 exited with 7",
        "ran: 0 s",
        "cost: about 1.2500 USD",
        "results: gs://artifacts/jobs/digits/output",
        "logs: gs://artifacts/jobs/digits/logs/",
        "still there: tear-down is not done, the cluster is busy; encamp reap --job digits -s lab",
        "more: encamp describe digits -s lab; encamp logs digits -s lab",
    ]
    assert one.told == [{"target": "team", "state": "FAILED", "sent": True}]
    assert one.lines == ["notice to team: sent"]


def test_a_later_finisher_sends_what_was_not_sent_and_nothing_twice(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare({"name": "team"}, {"name": "late"})
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    one = job()
    assert one.ends(SUCCEEDED)
    one.is_taken_over()
    with webhook() as other:
        monkeypatch.setenv("ENCAMP_NOTICE_LATE", other.address)
        assert one.ends(SUCCEEDED)
        one.is_taken_over()
        assert not one.ends(SUCCEEDED)
        assert (len(hook.taken), len(other.taken)) == (1, 1)
    late = [entry for entry in one.told if entry["target"] == "late"]
    assert [(entry["sent"], entry.get("why")) for entry in late] == [
        (False, "ENCAMP_NOTICE_LATE is not set here"),
        (True, None),
    ]


def test_who_has_lost_the_job_tells_nobody(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare({"name": "team"})
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    one = job()
    mine = one.lease
    one.is_taken_over()
    one.lease = mine
    with pytest.raises(LeaseLostError):
        Notifier(one.records, mine, one.intent, GoogleClient(), print).tell(SUCCEEDED, RECEIPT, None)
    assert hook.paths == []


@pytest.mark.parametrize(
    ("targets", "asked", "outcome", "told"),
    [
        ([{"name": "team"}], [], SUCCEEDED, ["team"]),
        ([{"name": "team", "states": ["FAILED"]}], [], SUCCEEDED, []),
        ([{"name": "team", "states": ["FAILED"]}], [], FAILED, ["team"]),
        ([{"name": "team", "everyJob": False}], [], FAILED, []),
        ([{"name": "team", "everyJob": False}], [EVERY], FAILED, ["team"]),
        ([{"name": "team", "states": ["FAILED"]}], [EVERY], SUCCEEDED, ["team"]),
        (
            [{"name": "a"}, {"name": "b", "everyJob": False}],
            [{"target": "b", "states": ["FAILED"]}],
            FAILED,
            ["a", "b"],
        ),
        # What a stack by hand says is not to be relied on.
        ([{"name": "team"}], [{"goal": "team"}], FAILED, ["team"]),
        ([{"name": "team"}], ["team"], FAILED, ["team"]),
    ],
)
def test_who_is_told_of_which_end(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch, *,
    targets: list[dict[str, Any]], asked: list[dict[str, Any]], outcome: Outcome, told: list[str],
) -> None:  # fmt: skip
    declare(*targets)
    for target in targets:
        monkeypatch.setenv(f"ENCAMP_NOTICE_{target['name'].upper()}", hook.address)
    one = job(*asked)
    assert one.ends(outcome) == bool(told)
    assert [entry["target"] for entry in one.told] == told
    assert len(hook.taken) == len(told)


def test_a_target_that_the_environment_does_not_declare_gets_nothing(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack by hand may name anything; only what the environment declares is looked up."""
    declare()
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    one = job(EVERY)
    assert one.ends(FAILED)
    assert one.told[0]["why"] == "the environment declares no such target"
    assert hook.paths == []


def test_an_environment_that_cannot_be_read_is_one_line(declare: Any, job: Any, tmp_path: Path) -> None:
    declare()
    (tmp_path / "project" / "stacks" / "Pulumi.lab.yaml").unlink()
    one = job(EVERY)
    assert not one.ends(FAILED)
    assert one.lines == ["no notice can be sent: there is no environment 'lab'"]


def test_before_a_job_begins_it_is_said_what_could_not_be_sent(declare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    declare({"name": "team"}, {"name": "mail"})
    planned = [cast("NoticePlan", type("Planned", (), {"target": name})()) for name in ("team", "mail")]
    assert unready(planned, "lab", {"ENCAMP_NOTICE_TEAM": "x"}) == [
        "no notice can be sent to mail from here: ENCAMP_NOTICE_MAIL is not set (docs/notices.md)"
    ]
    assert unready([], "nowhere", {}) == []
    monkeypatch.setitem(EXTRAS, "notices", ("a_module_that_is_nowhere",))
    (line,) = unready(planned, "lab", {})
    assert "pip install 'encamp[notices]'" in line


def test_without_the_library_the_job_ends_as_ever(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare({"name": "team"})
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    monkeypatch.setitem(EXTRAS, "notices", ("a_module_that_is_nowhere",))
    one = job()
    assert one.ends(FAILED)
    assert "pip install 'encamp[notices]'" in one.told[0]["why"]


@pytest.mark.parametrize("status", [200, 302, 401, 500])
def test_no_secret_is_kept_whatever_the_service_does(
    hook: Webhook, declare: Any, job: Any, monkeypatch: pytest.MonkeyPatch, *, tmp_path: Path, status: int
) -> None:
    declare({"name": "team"}, {"name": "wrong"}, {"name": "away"})
    hook.status = status
    monkeypatch.setenv("ENCAMP_NOTICE_TEAM", hook.address)
    monkeypatch.setenv("ENCAMP_NOTICE_WRONG", f"no address: {TOKEN}")
    monkeypatch.setenv("ENCAMP_NOTICE_AWAY", f"jsons://127.0.0.1:1/{TOKEN}")
    one = job()
    # A trainer that knows the address, or guesses it, gets it into no message either.
    assert one.ends(Outcome(State.FAILED, f"posted to {hook.address} and ya29.{TOKEN}"))
    receipt = one.receipt()
    told = json.dumps([one.told, receipt["notices"], one.lines, receipt_text(receipt), short_receipt(receipt)])
    assert TOKEN not in told
    assert TOKEN not in json.dumps(hook.taken)
    assert "notices      " in receipt_text(receipt)
    one.records.close()
    for file in (tmp_path / "record").iterdir():
        assert TOKEN.encode() not in file.read_bytes(), file


def test_a_receipt_names_each_target_once(job: Any) -> None:
    one = job()
    for sent in (False, True):
        one.records.append(one.lease, NOTICE, {"target": "team", "state": "FAILED", "sent": sent})
    (told,) = notices_of(one.record)
    assert (told["target"], told["sent"]) == ("team", True)


def test_a_receipt_of_a_job_that_tells_nobody_says_nothing_of_it(job: Any) -> None:
    receipt = job().receipt()
    assert "notices" not in receipt
    assert "notices" not in receipt_text(receipt)


@pytest.mark.parametrize(
    "said",
    ["ask @channel and <!here>", "line\nbreak\x1b[2J", "x" * 5000, "https://u:pass-word@host/", "Bearer abcdefghi"],
)
def test_what_a_trainer_says_mentions_nobody_and_is_bounded(job: Any, said: str) -> None:
    body = message(intent(), job().record, Outcome(State.FAILED, said), None, None).body
    assert len(body) < 1200
    assert all(line.isprintable() or "\u200b" in line for line in body.split("\n"))
    assert "@channel" not in body
    assert "<!" not in body
    assert "pass-word" not in body
    assert "abcdefghi" not in body


TEXTS = st.text(max_size=40)
ADDRESSES = st.builds("slack://{}/{}".format, st.uuids(), st.uuids())


@given(before=TEXTS, after=TEXTS, address=ADDRESSES)
def test_no_message_holds_an_address_that_is_known(before: str, after: str, address: str) -> None:
    record = RunRecord("digits", "d", datetime(2026, 5, 1, tzinfo=UTC), State.FAILED)
    outcome = Outcome(State.FAILED, f"{before}{address}{after}")
    found = message(intent(), record, outcome, None, f"{after}{address}", secrets=[address])
    assert address not in found.body
    assert address not in found.title
