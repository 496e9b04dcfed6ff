"""gcloud 528 speaks to the service: what it sent when it was recorded everywhere, itself where it is installed.

`pytest -m jobs tests/api/gcloud --rewrite-goldens` records anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.gcloud.harness import (
    GCLOUD,
    Case,
    Front,
    Gcloud,
    Player,
    Sent,
    flags,
    record,
    recorded,
    steps,
    submissions,
    told,
)
from tests.api.test_logs import FakeTexts
from tests.api.world import served, world

from encamp.run.history.log_source import FoundTexts
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records

CASES = [*submissions(), *steps()]
#: What gcloud itself does in `make test`; the rest of what it does is among the whole jobs.
QUICK = ("plain", "package_path", "labels", "config_with_a_wrong_field", "describe", "list", "update_labels", "cancel")
WHOLE = [(case, "recorded") for case in CASES]
if GCLOUD is not None:
    WHOLE += [(case, "quick") for case in CASES if case.name in QUICK]
    WHOLE += [(case, "gcloud") for case in CASES]
_MARKS = {"recorded": (), "quick": (pytest.mark.slow,), "gcloud": (pytest.mark.jobs,)}
NOON = 1_767_268_800


@dataclass
class Done:
    """What was sent in each case, what was answered, and what gcloud said."""

    front: Front
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)


class Logs:
    """The logs of one job that has ended."""

    def __init__(self) -> None:
        self.texts = FakeTexts()
        self.texts.come(1, master_replica_0=b"one\n  two\n", worker_replica_0=b"and a worker\n")
        self.texts.come(2, master_replica_0=b"the last\n")

    def look(self, record: RunRecord) -> FoundTexts:
        return FoundTexts(self.texts if record.job_id == "streamed" else FakeTexts(), whole=record.state.ended)


def _streamed(records: Records) -> None:
    """A job that has ended."""
    lease = records.begin("streamed", "streamed", {"environment": "sandbox"})
    records.move(lease, State.PREPARING)
    records.append(lease, "outcome", Outcome(State.FAILED, "worker-replica-0 exited with 3").to_json())
    records.move(lease, State.FAILED)
    records.append(lease, "gone", {})
    records.release(lease)


@contextlib.contextmanager
def _doing(folder: Path) -> Iterator[Front]:
    with world(folder, logs=Logs()) as found:
        _streamed(found.records)
        front = Front(found.app, folder)
        try:
            yield front
        finally:
            front.close()


def _played(front: Front) -> Done:
    done = Done(front)
    player = Player(front, recorded())
    for case in CASES:
        before = len(front.sent)
        asyncio.run(player.play(case))
        done.sent[case.name] = front.sent[before:]
    return done


def _called(front: Front, folder: Path, cases: list[Case]) -> Done:
    done = Done(front)
    with served(front) as url:
        gcloud = Gcloud(url, folder)
        for case in cases:
            before = len(front.sent)
            done.said[case.name] = gcloud.call(case)
            done.sent[case.name] = front.sent[before:]
    return done


@pytest.fixture(scope="module")
def doing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Done]]:
    """Does all cases of a way, once."""
    found: dict[str, Done] = {}
    with contextlib.ExitStack() as stack:

        def done(way: str) -> Done:
            if way not in found:
                folder = tmp_path_factory.mktemp(way)
                front = stack.enter_context(_doing(folder))
                cases = [case for case, one in WHOLE if one == way]
                found[way] = _played(front) if way == "recorded" else _called(front, folder, cases)
                if way == "gcloud" and request.config.getoption("--rewrite-goldens"):
                    record(found[way].sent)
            return found[way]

        yield done


@pytest.fixture
def done(way: str, doing: Callable[[str], Done]) -> Done:
    return doing(way)


@pytest.mark.parametrize(
    ("case", "way"),
    [pytest.param(case, way, id=f"{way}-{case.name}", marks=_MARKS[way]) for case, way in WHOLE],
)
def test_gcloud(case: Case, done: Done) -> None:
    """Each call is answered as the table says; gcloud sends what it sent then, and understands the answer."""
    sent = done.sent[case.name]
    assert all(one.status < 500 for one in sent)
    assert told([one.to_json() for one in sent]) == told(recorded()[case.name])
    if case.refused is not None:
        assert 400 <= sent[-1].status < 500
        assert re.search(case.refused, sent[-1].data["error"]["message"])
    elif case.said is None:
        assert sent[-1].status == 200
    said = done.said.get(case.name)
    if said is None:
        return
    assert "Traceback" not in said.stderr
    assert "crashed" not in said.stderr
    assert (said.returncode == 0) is (case.refused is None and case.said is None), said.stderr
    if case.refused is not None:
        assert re.search(case.refused, said.stderr.replace("\n", " ")), said.stderr
    assert case.said is None or case.said in said.stderr
    for line in case.shown:
        assert re.search(line, said.stdout, re.MULTILINE), said.stdout


_WAYS = [
    pytest.param(way, marks=_MARKS[way])
    for way in dict.fromkeys(way for _, way in WHOLE)
    if way in ("recorded", "gcloud")
]


@pytest.mark.parametrize("way", _WAYS)
def test_a_job_is_what_was_submitted(done: Done) -> None:
    for case in submissions():
        *_, last = done.sent[case.name] or [None]
        if last is None or last.status != 200:
            continue
        asked, answered = json_of(last), last.data
        assert {name: answered.get(name) for name in asked} == asked, case.name
        assert answered["state"] == "QUEUED"


@pytest.mark.parametrize("way", _WAYS)
def test_packages_arrive_byte_for_byte(done: Done) -> None:
    for name in ("package_path", "packages_below_the_job_dir"):
        uri = json_of(done.sent[name][-1])["trainingInput"]["packageUris"][-1 if name == "package_path" else 1]
        content = done.front.object(uri.removeprefix("gs://staging/"))
        # gcloud names the folder by the digest of all that it uploads, here one file.
        assert uri.split("/")[-2] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("way", _WAYS)
def test_a_stream_gives_every_line_of_a_job_once(done: Done) -> None:
    # What was recorded does not know of the times of this job: only its first look is as gcloud's is now.
    looks = done.sent["stream"] if done.said else done.sent["stream"][:1]
    # The last entry of a look comes again in the next one, and gcloud leaves it out.
    entries = {one["insertId"]: one for sent in looks for one in _entries(sent)}.values()
    lines = [(one["resource"]["labels"]["task_name"], one["textPayload"]) for one in entries]
    assert lines == [
        ("master-replica-0", "one"),
        ("master-replica-0", "  two"),
        ("worker-replica-0", "and a worker"),
        ("master-replica-0", "the last"),
        ("service", "The job was accepted and is queued."),
        ("service", "The job is being prepared: its machines and replicas are on their way."),
        ("service", "The job has failed: worker-replica-0 exited with 3"),
    ]
    assert [one["textPayload"] for one in _entries(done.sent["stream_task"][0])] == ["and a worker"]
    if "stream" in done.said:
        shown = [line.split("\t") for line in done.said["stream"].stdout.splitlines()]
        assert [(line[2], line[4]) for line in shown] == lines
        assert [line[0] for line in shown] == ["INFO"] * 6 + ["ERROR"]


def _entries(sent: Sent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent.data.get("entries", [])
    return found


def json_of(sent: Sent) -> dict[str, Any]:
    """The JSON that was sent."""
    found: dict[str, Any] = sent.to_json()["json"]
    return found


def test_every_flag_of_submit_training_is_in_the_table() -> None:
    assert flags() <= {word for case in submissions() for word in case.arguments if word.startswith("--")}


if GCLOUD is not None:

    @pytest.mark.jobs
    def test_the_table_knows_every_flag_of_the_gcloud_that_is_here() -> None:
        found: set[str] = set()
        for track in ("", "beta"):
            call = [str(GCLOUD), *track.split(), "ai-platform", "jobs", "submit", "training", "--help"]
            text = subprocess.run(call, capture_output=True, text=True, check=True).stdout
            synopsis = re.sub(r"\x1b\[\d*m", "", text).partition("SYNOPSIS")[2].partition("DESCRIPTION")[0]
            found |= set(re.findall(r"--[a-z][a-z-]+", synopsis))
        assert found == flags() | {"--stream-logs"}
