from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text

from encamp.errors import EngineError, UsageError
from encamp.run.store import holder, journal
from encamp.run.store.records import LEASE_SECONDS, CancelRequest, Records
from encamp.run.store.states import Outcome, ReplicaFailure, State
from encamp.run.store.tables import JOBS, JOURNAL, LEASES

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine
    from tests.run.clock import Clock


def _elsewhere() -> str:
    """A holder on another machine."""
    return json.dumps({**json.loads(holder.myself()), "place": "elsewhere", "host": "far"})


def test_the_intent_stands_before_anything_else_and_states_have_times(records: Records, clock: Clock) -> None:
    lease = records.begin("a", "a", {"bucket": "b"})
    clock.now += 5
    records.move(lease, State.PREPARING)
    record = records.record("a")
    assert record is not None
    assert record.intent == {"bucket": "b"}
    assert [entry.kind for entry in record.entries] == ["intent", "state", "state"]
    assert (record.times[State.PREPARING] - record.times[State.QUEUED]).total_seconds() == 5


def test_an_ended_job_is_refused_for_ever_and_says_how_it_ended(records: Records) -> None:
    lease = records.begin("a", "a", {})
    for state in (State.PREPARING, State.RUNNING, State.SUCCEEDED):
        records.move(lease, state)
    records.append(lease, "gone", {})
    records.release(lease)
    with pytest.raises(UsageError, match="has ended: SUCCEEDED"):
        records.begin("a", "a", {})


def test_a_running_job_is_refused_with_who_holds_it(records: Records) -> None:
    records.begin("a", "a", {})
    with pytest.raises(UsageError, match=f"is running: process {os.getpid()} on"):
        records.begin("a", "a", {})


def test_a_job_whose_driver_is_gone_is_for_the_reaper(records: Records) -> None:
    records.release(records.begin("a", "a", {}))
    with pytest.raises(UsageError, match="encamp reap"):
        records.begin("a", "a", {})


def test_an_ended_state_is_final(records: Records) -> None:
    lease = records.begin("a", "a", {})
    for state in (State.PREPARING, State.RUNNING, State.SUCCEEDED, State.CANCELLING, State.FAILED):
        records.move(lease, state)
    record = records.record("a")
    assert record is not None
    assert record.state is State.SUCCEEDED


def test_a_second_driver_is_refused_until_the_lease_ends_and_then_fences_the_first(
    records: Records, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        far = _elsewhere()
        patch.setattr(holder, "myself", lambda: far)
        first = records.begin("a", "a", {})
    with pytest.raises(UsageError, match="on far holds this job since"):
        records.adopt("a", "a", {})
    clock.now += LEASE_SECONDS - 1
    assert records.renew(first)
    clock.now += LEASE_SECONDS - 1
    with pytest.raises(UsageError):
        records.adopt("a", "a", {})
    clock.now += 2
    second = records.adopt("a", "a", {})
    assert second.fence == first.fence + 1
    assert not records.renew(first)
    with pytest.raises(EngineError, match="adopted this job"):
        records.append(first, "state", {"state": "FAILED"})


def test_a_driver_that_was_killed_here_is_seen_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, os, signal; from encamp.run.store.records import Records\n"
        "Records.open(None, pathlib.Path(sys.argv[1])).begin('a', 'a', {}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": "infra"}
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -9
    records = Records.open(None, tmp_path)
    assert records.holder_of("a") is None
    assert records.adopt("a", "a", {}).fence == 2
    records.close()


def test_whoever_asks_first_cancels_and_needs_no_lease(records: Records, clock: Clock) -> None:
    begun = records.begin("a", "a", {})
    assert records.cancel_requested("a") is None
    clock.now += 5
    first = records.request_cancel("a", "ann")
    clock.now += 5
    assert first == records.request_cancel("a", "bob") == datetime.fromtimestamp(clock.now - 5, UTC)
    assert records.cancel_requested("a") == CancelRequest(first, "ann")
    record = records.record("a")
    assert record is not None
    assert (record.cancel, record.state) == (CancelRequest(first, "ann"), State.QUEUED)
    assert [entry.kind for entry in record.entries].count("cancel") == 1
    records.append(begun, "sealed", {})


def test_a_job_that_never_was_cannot_be_cancelled(records: Records) -> None:
    with pytest.raises(UsageError, match="no such job"):
        records.request_cancel("a", "ann")
    assert records.cancel_requested("a") is None


def test_a_damaged_entry_is_left_out_and_counted(records: Records, database: Engine) -> None:
    lease = records.begin("a", "a", {"bucket": "b"})
    records.append(lease, "outcome", Outcome(State.FAILED).to_json())
    with database.begin() as connection:
        connection.execute(text("update journal set data = '{\"sta' where kind = 'outcome'"))
    record = records.record("a")
    assert record is not None
    assert (record.outcome, record.damaged, record.intent) == (None, 1, {"bucket": "b"})


def test_a_job_without_a_record_is_adopted_with_an_intent(records: Records) -> None:
    records.adopt("by_hand", "by-hand", {"stack": "s"})
    record = records.record("by_hand")
    assert record is not None
    assert record.intent == {"stack": "s"}


def test_an_outcome_keeps_every_word() -> None:
    failure = ReplicaFailure("worker-replica-1", 3, "why", ("a", "b"))
    outcome = Outcome(State.FAILED, "message", failure)
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


def test_what_a_later_version_wrote_is_kept_and_tells_nothing_here(records: Records, database: Engine) -> None:
    lease = records.begin("a", "a", {"bucket": "b"})
    records.move(lease, State.PREPARING)
    records.append(lease, "state", {"state": "HIBERNATING"})
    records.append(lease, "weather", {"sun": True})
    records.append(lease, "outcome", {"state": "MELTED", "failure": 3})
    records.append(lease, "outcome", {"state": "RUNNING"})
    records.append(lease, "intent", {"bucket": "b", "moon": 1})
    records.move(lease, State.RUNNING)
    record = records.record("a")
    assert record is not None
    assert (record.state, record.outcome, record.damaged) == (State.RUNNING, None, 0)
    assert (record.intent or {})["moon"] == 1
    with database.begin() as connection:
        for number, broken in enumerate(("", "null", "[1]", "{", "7", "[" * 100_000)):
            values = {"job": "a", "kind": "state", "data": broken, "digest": journal.digest("state", broken)}
            connection.execute(JOURNAL.insert().values(job_id="a", at=float(number), **_without(values, "job")))
        connection.execute(JOBS.insert().values(job_id="b", name="b", created=1e300))
        connection.execute(LEASES.insert().values(job_id="b", holder="{", fence=1, since=1e300, expires=9e9))
    record = records.record("a")
    assert record is not None
    assert (record.state, record.damaged) == (State.RUNNING, 6)
    assert "an unknown machine" in (records.holder_of("b") or "")
    assert {record.job_id for record in records.records()} == {"a", "b"}


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def test_thousands_of_jobs_are_read_by_few_queries(records: Records, database: Engine) -> None:
    for number in range(20):
        records.release(records.begin(f"job_{number}", f"job-{number}", {}))
    held = records.begin("held", "held", {})
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        asked.append(statement)

    event.listen(database, "before_cursor_execute", note)
    assert len(records.records()) == 21
    assert list(records.holders()) == [held.job_id]
    assert sum(query.lower().startswith("select") for query in asked) <= 4


CUT_RUN = """
import os, pathlib, signal, sys
from encamp.run.store.records import Records
records = Records.open(None, pathlib.Path(sys.argv[1]))
for number in range(60):
    lease = records.begin(f"job_{number}", f"job-{number}", {"name": f"job-{number}", "filler": "x" * 2000})
os.kill(os.getpid(), signal.SIGKILL)
"""


def _python(program: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": "infra"}
    return subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment, **options)


@pytest.mark.slow
def test_a_record_that_was_cut_off_anywhere_is_survived(tmp_path: Path) -> None:
    """The log of a killed writer, and the file after a copy that broke off."""
    whole = tmp_path / "whole"
    assert _python(CUT_RUN, str(whole)).wait() == -signal.SIGKILL
    log = (whole / "records.sqlite3-wal").read_bytes()
    for share in (0.0, 0.3, 0.999):
        cut = tmp_path / f"log-{share}"
        shutil.copytree(whole, cut)
        (cut / "records.sqlite3-wal").write_bytes(log[: int(len(log) * share)])
        assert len(_mended(cut)) <= 60
    Records.open(None, whole).close()
    data = (whole / "records.sqlite3").read_bytes()
    found: list[int] = []
    for share in (0.0, 0.001, 0.1, 0.5, 0.97):
        cut = tmp_path / f"file-{share}"
        cut.mkdir()
        (cut / "records.sqlite3").write_bytes(data[: int(len(data) * share)])
        found.append(len(_mended(cut)))
        assert bool(list(cut.glob("records.sqlite3.damaged-*"))) is (share > 0)
    assert found == sorted(found)
    assert found[-1] > 40
    assert len(_mended(whole)) == 60


def _mended(folder: Path) -> list[str]:
    """Jobs whose intent is known; the record can be written again."""
    records = Records.open(None, folder)
    records.release(records.begin("next", "next", {}))
    known = [record for record in records.records() if record.intent and record.job_id != "next"]
    assert all(record.intent == {"name": record.name, "filler": "x" * 2000} for record in known)
    records.close()
    return [record.job_id for record in known]


@pytest.mark.slow
def test_a_file_that_is_damaged_inside_is_no_traceback(tmp_path: Path) -> None:
    assert _python(CUT_RUN, str(tmp_path)).wait() == -signal.SIGKILL
    Records.open(None, tmp_path).close()
    file = tmp_path / "records.sqlite3"
    data = bytearray(file.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(data)
    records = Records.open(None, tmp_path)
    with pytest.raises(EngineError, match="the job records cannot be used: DatabaseError"):
        records.records()
    records.close()


#: Several drivers out of one interpreter: what takes long is the start of one.
DRIVERS = """
import os, pathlib, sys
from encamp.errors import UsageError
from encamp.run.store.records import Records
url, folder, together = sys.argv[1] or None, pathlib.Path(sys.argv[2]), os.pipe()
def write(own):
    lease = records.begin(own, own, {})
    for number in range(10):
        records.append(lease, "resource", {"number": number})
        records.request_cancel("shared", own)
        records.renew(lease)
        records.record("shared")
def take(verb):
    try:
        getattr(records, verb)(f"of_{verb}", verb, {})
        os.write(said[1], f"{verb} mine {os.getpid()}\\n".encode())
    except UsageError as error:
        os.write(said[1], f"{verb} {error.what}\\n".encode())
    os.read(ended[0], 1)
said, ended = os.pipe(), os.pipe()
drivers = []
for work, argument in [(write, f"w{number}") for number in range(4)] + [(take, "begin"), (take, "adopt")] * 3:
    drivers.append(os.fork())
    if drivers[-1] == 0:
        os.close(ended[1])
        os.close(together[1])
        records = Records.open(url, folder)
        os.read(together[0], 1)
        code = 1
        try:
            work(argument)
            code = 0
        finally:
            os._exit(code)
os.close(together[1])
lines = os.fdopen(said[0])
for number in range(6):
    print(lines.readline(), end="", flush=True)
os.close(ended[1])
sys.exit(max(os.waitpid(pid, 0)[1] for pid in drivers))
"""


@pytest.mark.slow
def test_many_drivers_write_at_once_and_of_those_of_one_job_one_has_it(
    request: pytest.FixtureRequest, database: Engine, tmp_path: Path
) -> None:
    url = "" if database.dialect.name == "sqlite" else request.getfixturevalue("postgres_url")
    records = Records(database)
    records.begin("shared", "shared", {})
    drivers = _python(DRIVERS, url, str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, errors = drivers.communicate()
    assert (drivers.returncode, errors) == (0, b"")
    record = records.record("shared")
    assert record is not None
    assert [entry.kind for entry in record.entries] == ["intent", "state", "cancel"]
    for number in range(4):
        own = records.record(f"w{number}")
        assert own is not None
        assert [entry.data["number"] for entry in own.entries if entry.kind == "resource"] == list(range(10))
    for verb in ("begin", "adopt"):
        said = [line for line in out.decode().splitlines() if line.startswith(verb)]
        (mine,) = [line.rpartition(" ")[2] for line in said if " mine " in line]
        assert [f"process {mine} on" in line for line in said if " mine " not in line] == [True, True]


PAUSED = """
import os, pathlib, signal, sys
from encamp.run.store.records import LeaseLostError, Records
records = Records.open(sys.argv[1] or None, pathlib.Path(sys.argv[2]))
lease = records.begin("a", "a", {})
os.kill(os.getpid(), signal.SIGSTOP)
assert not records.holds(lease)
assert not records.renew(lease)
try:
    records.append(lease, "gone", {})
except LeaseLostError:
    sys.exit(7)
"""


def test_a_driver_that_slept_longer_than_its_lease_cannot_write_any_more(
    request: pytest.FixtureRequest, database: Engine, tmp_path: Path
) -> None:
    url = "" if database.dialect.name == "sqlite" else request.getfixturevalue("postgres_url")
    driver = _python(PAUSED, url, str(tmp_path))
    assert os.WIFSTOPPED(os.waitpid(driver.pid, os.WUNTRACED)[1])
    with pytest.raises(UsageError, match=f"process {driver.pid} on"):
        Records(database).adopt("a", "a", {})
    later = Records(database, lambda: time.time() + LEASE_SECONDS + 1)
    lease = later.adopt("a", "a", {})
    later.append(lease, "sealed", {})
    os.kill(driver.pid, signal.SIGCONT)
    assert driver.wait() == 7
    record = later.record("a")
    assert record is not None
    assert not record.torn_down
