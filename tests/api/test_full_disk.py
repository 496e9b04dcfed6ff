"""A disk that is full, a real one: reading goes on, changes are refused with a reason, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
#: In a mount namespace of the test's own, a small disk: in memory, which takes no right, or a file system in a file.
MEMORY = "mount -t tmpfs -o size=8m disk"
FILE = "truncate -s 16M $1.image && mkfs.ext4 -q -m 0 $1.image && mount -o loop $1.image"
#: Methods that change something, and what the audit log calls them.
METHODS = {"create": "CreateJob", "cancel": "CancelJob", "patch": "UpdateJob", "setIamPolicy": "SetIamPolicy"}
READS = 1250


def seen(folder: Path, how: str, audit: str, *, user: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the program saw; ``audit`` is where its audit log lay: on the same disk, or apart."""
    disk, apart = folder / "disk", folder / "apart"
    disk.mkdir()
    apart.mkdir()
    script = f'set -e; {how} "$1"; mkdir "$1/s"; exec "$3" -m tests.api.full_disk "$1/s" "$2"'
    target = str(disk / "s") if audit == "same" else str(apart)
    ended = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-c", script, "sh", str(disk), target, sys.executable],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'infra'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


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
    hold(seen(tmp_path, MEMORY, audit, user=("--user", "--map-root-user")), audit)


@pytest.mark.system
@pytest.mark.parametrize("audit", ["same", "apart"])
def test_a_full_file_system_stops_changes_and_loses_nothing(tmp_path: Path, audit: str) -> None:
    hold(seen(tmp_path, FILE, audit), audit)
