"""A disk that is full, a real one: reading goes on, changes are refused with a reason, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.small_disk import FILE, MEMORY, run_on_small_disk

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "tests.api.full_disk"
#: Methods that change something, and what the audit log calls them.
METHODS = {"create": "CreateJob", "cancel": "CancelJob", "patch": "UpdateJob", "setIamPolicy": "SetIamPolicy"}
READS = 1250


def hold(found: dict[str, Any], audit: str) -> None:
    """Compare what the program saw with what it should."""
    assert found["before"] == 200
    assert found["refused"] == {verb: [503, "UNAVAILABLE"] for verb in METHODS}
    (said,) = found["said"]
    assert all(words in said for words in ("nothing was changed", "full", " goes on"))
    assert ("audit log" in said) == (audit == "same")
    assert found["read"] == [200]
    assert found["probes"] == [200, 200]
    assert found["again"] == 503
    # There is room again, and whoever tries again is served: nothing is left of what was refused.
    assert found["after"] == dict.fromkeys(METHODS, 200)
    assert found["jobs"] == ["before", "during"]
    audited = found["audited"]
    creates = dict.fromkeys(METHODS.values(), 1) | {"CreateJob": 2}
    assert {verb: audited[f"{verb} 0"] for verb in creates} == creates
    assert {verb: audited[f"{verb} 14"] for verb in creates} == creates
    listed = sum(audited.get(f"{name} 0", 0) for name in ("GetJob", "ListJobs", "GetConfig"))
    assert listed + found["counted"] == READS


@pytest.mark.slow
@pytest.mark.parametrize("audit", ["same", "apart"])
def test_a_full_disk_stops_changes_and_loses_nothing(tmp_path: Path, audit: str) -> None:
    user = ("--user", "--map-root-user")
    hold(run_on_small_disk(tmp_path, MEMORY, PROGRAM, apart=audit == "apart", user=user), audit)


@pytest.mark.system
@pytest.mark.parametrize("audit", ["same", "apart"])
def test_a_full_file_system_stops_changes_and_loses_nothing(tmp_path: Path, audit: str) -> None:
    hold(run_on_small_disk(tmp_path, FILE, PROGRAM, apart=audit == "apart"), audit)
