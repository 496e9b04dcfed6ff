from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine
from tests.run.clock import Clock

from encamp.run.store.records import Records
from encamp.run.store.tables import METADATA, open_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("encamp_tests_postgres", Path(__file__).with_name("postgres.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.postgres() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A server without a record; the one that a test makes goes with it."""
    yield postgres_server
    engine = create_engine(postgres_server)
    METADATA.drop_all(engine)
    engine.dispose()


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """The record of one machine, and that of a team."""
    url = None if request.param == "file" else request.getfixturevalue("postgres_url")
    engine = open_database(url, tmp_path)
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries as many as ever, with pauses that nobody notices."""
    for policy in ("lifecycle.bring_up.POLICY", "engine.job_engine._POLICY", "lifecycle.teardown._POLICY"):
        name = f"encamp.run.{policy}"
        module, _, attribute = name.rpartition(".")
        kept = getattr(importlib.import_module(module), attribute)
        monkeypatch.setattr(name, replace(kept, first_pause=0.01, longest_pause=0.02))
    monkeypatch.setattr("encamp.run.logs.recover._PAUSE_SECONDS", 0.01)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records(database: Engine, clock: Clock) -> Records:
    """A record of either kind, by a clock that stands until it is turned."""
    return Records(database, clock)
