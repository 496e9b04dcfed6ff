"""A disk that is full, a real one: what, where and what to do is said, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.small_disk import FILE, MEMORY, run_on_small_disk

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "tests.run.full_disk"


def hold(found: dict[str, Any]) -> None:
    """Compare what the program saw with what it should."""
    record = found["record"]
    assert "database or disk is full" in record["what"]
    assert record["where"].endswith("/record/records.sqlite3")
    assert "make room there" in record["hint"]
    assert record["during"] >= 2
    assert (record["kinds"], record["damaged"]) == (["intent", "state", "after"], 0)
    opening = found["opening"]
    assert opening["where"].endswith("/opening/new/records.sqlite3")
    assert "disk" in f"{opening['what']} {opening['hint']}"
    assert found["spool"] == {"refused": "No space left on device", "lines": 30, "complete": True}
    storage = found["storage"]
    assert storage["refused"][0] == storage["again"] == 507
    assert "No space left on device. Make room there" in storage["refused"][1]
    assert storage["asked"] == 308
    assert (storage["stored"], storage["same"]) == ([200, 200], [True, True])
    backend = found["backend"]
    assert "no space left on device" in backend["what"]
    assert backend["where"] == "stack during"
    assert "make room" in backend["hint"]
    assert {"before", "after"} <= set(backend["stacks"])


@pytest.mark.slow
def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    hold(run_on_small_disk(tmp_path, MEMORY, PROGRAM, user=("--user", "--map-root-user")))


@pytest.mark.system
def test_a_full_file_system_is_named_and_loses_nothing(tmp_path: Path) -> None:
    hold(run_on_small_disk(tmp_path, FILE, PROGRAM))
