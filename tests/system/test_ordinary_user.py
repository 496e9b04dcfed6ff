"""The sandbox belongs to whoever starts it: a whole job as a user without any right, also where tests run as root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).resolve().parents[2]
#: As user 1000 in a user namespace of its own, a process keeps its files and loses every capability.
ORDINARY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
ENCAMP = [sys.executable, "-c", "from encamp.cli.main import main; main()"]


def test_a_user_without_any_right_runs_a_whole_job(tmp_path: Path) -> None:
    environment = {**os.environ, "ENCAMP_SANDBOX_DIR": str(tmp_path / "sb"), "PYTHONPATH": str(REPOSITORY / "infra")}

    def ordinary(*command: str) -> str:
        ended = subprocess.run(
            [*ORDINARY, *command],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    assert ordinary("id", "-u").strip() == "1000"
    assert "CapEff:\t0000000000000000" in ordinary("cat", "/proc/self/status")
    try:
        ordinary(*ENCAMP, "sandbox", "up")
        ordinary(*ENCAMP, "environment", "up")
        said = ordinary(*ENCAMP, "run", "examples/digits/job.yaml", "--job-id", "ordinary")
        assert "worker 1: one of 3 replicas" in said
        assert "left         nothing" in said
    finally:
        ordinary(*ENCAMP, "sandbox", "down")
