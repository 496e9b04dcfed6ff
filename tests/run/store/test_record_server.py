"""A team's record on a real PostgreSQL server: two reapers at once, a clock that is wrong, a server that is away."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import create_engine, text

from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap
from encamp.run.store import transactions
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

_DAY = 86400.0
#: The server is away for a minute; retries and it are so much faster here.
_FASTER = 20
_AWAY_SECONDS = 60.0 / _FASTER


@pytest.fixture
def ground(
    google: Any, client: GoogleClient, kubernetes: Any, postgres_url: str, request: pytest.FixtureRequest
) -> Any:
    """A job whose driver died, recorded by a server."""
    load_module: Callable[[str, str], Any] = request.getfixturevalue("load_module")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    tmp_path: Path = request.getfixturevalue("tmp_path")
    reaping = load_module("encamp_test_reap", "run/lifecycle/reap/ground.py")
    driver = load_module("encamp_test_driver", "run/lifecycle/driver/world.py")
    monkeypatch.setattr("encamp.run.lifecycle.teardown._SETTLE_SECONDS", 0.01)
    made = reaping.Ground(driver, driver.make_world(google, client, kubernetes, tmp_path, monkeypatch))
    monkeypatch.setenv("ENCAMP_RECORD_URL", postgres_url)
    return made


def kinds(ground: Any) -> list[str]:
    return [entry.kind for entry in ground.found().entries]


def assert_ended_once(ground: Any) -> None:
    found = ground.found()
    assert (found.state, found.torn_down) == (State.SUCCEEDED, True)
    assert kinds(ground).count("receipt") == 1
    assert [each for each in ground.listed() if each in {"scratch", "j-pool"}] == []
    assert ground.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert reap(ground.world.context, "sandbox") == []


def test_two_reapers_at_once_end_a_job_once(ground: Any) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(0)
    together = threading.Barrier(2)

    def one() -> list[Any]:
        together.wait()
        return reap(ground.world.context, "sandbox")

    with ThreadPoolExecutor(2) as pool:
        found = [finding for done in [pool.submit(one) for _ in range(2)] for finding in done.result()]
    verdicts = [finding.verdict for finding in found]
    assert verdicts.count(Verdict.ENDED) == 1
    assert set(verdicts) <= {Verdict.ENDED, Verdict.HELD}
    assert_ended_once(ground)


def test_a_reapers_clock_that_is_a_day_ahead_ends_no_job_that_trains(
    ground: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time
    ground.record(deadline=right() + 3600)
    ground.furnish()
    ground.world.trains(None)
    for ahead in (_DAY, -_DAY):
        with monkeypatch.context() as wrong:
            wrong.setattr(time, "time", lambda ahead=ahead: right() + ahead)
            (finding,) = reap(ground.world.context, "sandbox", ReapOptions())
        assert finding.verdict is Verdict.HELD
        assert "still trains" in finding.why
    assert ground.found().state is State.RUNNING
    assert {"scratch", "j-pool"} <= set(ground.listed())


def test_a_server_that_is_away_for_a_minute_loses_nothing(
    ground: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = transactions._POLICY
    assert policy.total is not None
    faster = replace(
        policy,
        first_pause=policy.first_pause / _FASTER,
        longest_pause=policy.longest_pause / _FASTER,
        total=policy.total / _FASTER,
    )
    monkeypatch.setattr(transactions, "_POLICY", faster)
    ground.record()
    ground.furnish()
    ground.world.trains(0)
    socket = Path(parse_qs(urlsplit(postgres_url).query)["host"][0]) / ".s.PGSQL.5432"
    server = create_engine(postgres_url)
    away = threading.Event()
    adopted = transactions.Transactions.write

    def leave() -> None:
        with server.begin() as connection:
            socket.rename(socket.with_name("away"))
            others = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            connection.execute(text(f"{others} and datname = 'postgres'"))
        time.sleep(_AWAY_SECONDS)
        socket.with_name("away").rename(socket)

    def written(self: Any, work: Any) -> Any:
        done = adopted(self, work)
        if not away.is_set():
            # The job is held now, and everything that follows finds no server.
            away.set()
            thread = threading.Thread(target=leave)
            thread.start()
            while socket.exists():
                time.sleep(0.01)
        return done

    monkeypatch.setattr(transactions.Transactions, "write", written)
    began = time.monotonic()
    (finding,) = reap(ground.world.context, "sandbox", ReapOptions())
    assert finding.verdict is Verdict.ENDED
    assert time.monotonic() - began >= _AWAY_SECONDS
    server.dispose()
    assert_ended_once(ground)
