"""Jobs from Python over the sandbox: the page's own code, as the cells of a notebook run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

REPOSITORY = Path(__file__).parents[2]
#: A kernel keeps the names of earlier cells, and runs each within its event loop.
KERNEL = """
import asyncio, os, sys

async def main(names, cells):
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)

# gRPC reads it once, so it is set for good.
names, before = {}, {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false"}
try:
    asyncio.run(main(names, sys.argv[1:]))
finally:
    assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
"""
#: Interrupts itself once the job trains, as the stop button of a notebook does.
STOPPED = """
import os, signal
from encamp import jobs
seen = []
def step(line):
    seen.append(line)
    if "is RUNNING" in line:
        os.kill(os.getpid(), signal.SIGINT)
run = jobs.run(JOB, job_id="stopped", on_step=step)
details = jobs.describe("stopped")
print(run.state, details.state, any("cancelling" in line for line in seen))
"""


def notebook(camp: Camp, folder: Path, *cells: str) -> str:
    """What cells print, run in a process of a user of the sandbox who has not entered it."""
    kept = ("HOME", "PATH", "PYTHONPATH", "ENCAMP_SANDBOX_DIR")
    own = {name: camp.environment[name] for name in kept if name in camp.environment}
    ended = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", KERNEL, *cells],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_the_pages_code_plans_runs_reads_and_copies(camp: Camp, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text()
    cells = re.findall(r"^```python[^\n]*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    said = notebook(camp, tmp_path, *cells).splitlines()
    assert len(said) == 7, said
    assert said[0].startswith("{'master': 1} {'master': 'n1-standard-4'} 0.")
    job_id, state, cost = said[1].split()
    assert (state, float(cost) > 0) == ("SUCCEEDED", True)
    assert [line.split()[2] for line in said[2:5]] == ["master-replica-0"] * 3
    assert (tmp_path / job_id / "output" / "model.joblib").is_file()
    assert said[5].endswith(f"files in {job_id}")
    assert said[6].startswith(f"{job_id} SUCCEEDED ")
    camp.assert_nothing_left(job_id)


def test_an_interrupt_cancels_the_job_and_takes_it_down(camp: Camp, tmp_path: Path, job: Callable[..., str]) -> None:
    file = job("chief-0=sleep", "worker-0=sleep", "worker-1=sleep")
    assert notebook(camp, tmp_path, STOPPED.replace("JOB", repr(file))) == "CANCELLED CANCELLED True\n"
    camp.assert_nothing_left("stopped")
