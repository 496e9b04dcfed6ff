"""The record and what waits in it on Debian's own PostgreSQL, an older one than the wheel's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path("/usr/lib/postgresql")
FILES = ["tests/run/store/test_records.py", "tests/run/store/test_submissions.py", "tests/run/store/test_tables.py"]


def programs() -> Path:
    """The newest server's programs, installed where there is none."""
    if not list(PROGRAMS.glob("*/bin/postgres")):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql"]):
            subprocess.run(["apt-get", *words], env=quiet, check=True, timeout=600)
    return max(PROGRAMS.glob("*/bin"), key=lambda folder: int(folder.parent.name))


def test_the_record_and_what_waits_in_it_keep_their_promises_on_debians_postgresql() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *FILES, "-q", "-n0", "-k", "server", "-p", "no:cacheprovider"],
        cwd=REPOSITORY,
        env={**os.environ, "ENCAMP_TEST_POSTGRES": str(programs())},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = int(ran.stdout.rpartition(" passed")[0].rpartition("\n")[2].split()[-1])
    assert passed > 30, ran.stdout
