from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import inspect, text

from encamp.errors import EngineError, UsageError
from encamp.run import holder
from encamp.run.records import LEASE_SECONDS, CancelRequest, Records
from encamp.run.states import Outcome, ReplicaFailure, State
from encamp.run.tables import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records(tmp_path: Path, clock: Clock) -> Iterator[Records]:
    opened = Records(open_database(None, tmp_path), clock)
    yield opened
    opened.close()


def _elsewhere() -> str:
    """A holder on another machine."""
    return json.dumps({**json.loads(holder.myself()), "place": "elsewhere", "host": "far"})


def test_the_file_is_its_owners_only(records: Records, tmp_path: Path) -> None:
    records.begin("a", "a", {})
    assert stat.S_IMODE(os.stat(tmp_path / "records.sqlite3").st_mode) == 0o600  # noqa: PTH116


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
    with pytest.raises(EngineError, match="taken this job over"):
        records.append(first, "state", {"state": "FAILED"})


def test_a_driver_that_was_killed_here_is_seen_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, os, signal; from encamp.run.records import Records\n"
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


def test_a_damaged_entry_is_left_out_and_counted(records: Records, tmp_path: Path) -> None:
    lease = records.begin("a", "a", {"bucket": "b"})
    records.append(lease, "outcome", Outcome(State.FAILED).to_json())
    database = open_database(None, tmp_path)
    with database.begin() as connection:
        connection.execute(text("update journal set data = '{\"sta' where kind = 'outcome'"))
    database.dispose()
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


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////no/such/folder/x", "nodialect://x"])
def test_a_url_that_is_none_is_refused(url: str, tmp_path: Any) -> None:
    with pytest.raises((UsageError, EngineError)):
        Records.open(url, tmp_path)


def test_many_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / str(number)
        together = threading.Barrier(6)

        def opened(folder: Path = folder, together: threading.Barrier = together) -> list[str]:
            together.wait()
            database = open_database(None, folder)
            try:
                return sorted(inspect(database).get_table_names())
            finally:
                database.dispose()

        with ThreadPoolExecutor(6) as pool:
            found = [future.result() for future in [pool.submit(opened) for _ in range(6)]]
        assert found == [["jobs", "journal", "leases"]] * 6
