"""Where the record lies: a file of its owner, or a server, with its clock, its connections and its password."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import inspect, text

from encamp.errors import EngineError, UsageError
from encamp.run.store import holder
from encamp.run.store.records import Records
from encamp.run.store.states import State
from encamp.run.store.tables import METADATA, open_database

if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_is_its_owners_only(tmp_path: Path) -> None:
    open_database(None, tmp_path).dispose()
    assert stat.S_IMODE(os.stat(tmp_path / "records.sqlite3").st_mode) == 0o600  # noqa: PTH116


@pytest.mark.slow
def test_a_server_judges_leases_by_its_own_clock(postgres_url: str, tmp_path: Path, monkeypatch: Any) -> None:
    records = Records.open(postgres_url, tmp_path)
    far = json.dumps({**json.loads(holder.myself()), "host": "far", "place": "another boot"})
    monkeypatch.setattr(holder, "myself", lambda: far)
    records.begin("a", "a", {})
    monkeypatch.setattr(time, "time", lambda: 9e9)
    assert "on far" in (records.holder_of("a") or "")
    with pytest.raises(UsageError, match="on far holds this job"):
        records.adopt("a", "a", {})
    records.close()
    database = open_database(postgres_url, tmp_path)
    METADATA.drop_all(database)
    database.dispose()


@pytest.mark.slow
def test_a_lost_connection_is_made_anew(postgres_url: str, tmp_path: Path) -> None:
    records = Records.open(postgres_url, tmp_path)
    lease = records.begin("a", "a", {})
    other = open_database(postgres_url, tmp_path)
    with other.begin() as connection:
        connection.execute(
            text(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and datname = 'postgres'"
            )
        )
    records.append(lease, "sealed", {})
    records.close()
    METADATA.drop_all(other)
    other.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "canary-pass",
        "sqlite:////no/such/folder/x",
        "nodialect://x:canary-pass@y",
        "postgresql+psycopg://u:canary-pass@127.0.0.1:1/d",
        "postgresql+psycopg://u:canary-pass@127.0.0.1:port/d",
        "postgresql+psycopg://u:canary-pass@/d?host=/no/such/folder&password=canary-pass",
        "postgresql+asyncpg://u:canary-pass@y/d",
        "postgresql+psycopg://u:canary-pass@[y/d",
    ],
)
def test_a_url_that_is_of_no_use_is_refused_without_its_password(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises((UsageError, EngineError)) as caught:
        Records.open(url, tmp_path)
    assert "canary-pass" not in str(caught.value)
    assert "canary-pass" not in caplog.text


@pytest.mark.slow
def test_a_server_that_is_gone_is_said_without_its_password(postgres_url: str, tmp_path: Path) -> None:
    database = open_database(postgres_url, tmp_path)
    records = Records(database)
    METADATA.drop_all(database)
    with pytest.raises(EngineError, match="the job records cannot be used: UndefinedTable") as caught:
        records.records()
    assert "postgresql+psycopg://postgres:" in str(caught.value)
    assert "canary-pass" not in str(caught.value)
    records.close()


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="ENCAMP_RECORD_URL"):
        Records.open(None, tmp_path / "file")


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
        assert found == [["jobs", "journal", "leases", "submissions"]] * 6


_OTHER = "import sys; from pathlib import Path; from encamp.run.store.records import Records\n"


@pytest.mark.slow
def test_a_file_that_is_opened_twice_keeps_what_is_written_while_others_come_and_go(tmp_path: Path) -> None:
    """As in a driver, which opens the record anew for a job of a record that it has open."""
    first = Records.open(None, tmp_path)
    lease = first.begin("a", "name-a", {})
    second = Records.open(None, tmp_path)
    second.record("a")
    folder = str(tmp_path)
    look = f"{_OTHER}records = Records.open(None, Path(sys.argv[1])); print(records.record('a').state); records.close()"
    path = ":".join(sys.path)

    def told() -> str:
        run = subprocess.run(
            [sys.executable, "-c", look, folder], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
        )
        return run.stdout.strip()

    assert told() == "QUEUED"
    first.move(lease, State.PREPARING)
    assert told() == "PREPARING"
    second.close()
    assert told() == "PREPARING"
    first.move(lease, State.RUNNING)
    first.close()
    assert told() == "RUNNING"
