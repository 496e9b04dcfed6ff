"""What `encamp local train` costs beside the training, against the same processes alone and against the old client.

The floor starts the processes itself; the old client is `gcloud ai-platform local train`, where gcloud is on PATH. The
trainer sleeps for a second and imports nothing, so that whatever else takes time is the command's. All run the same
Python: first one without TensorFlow; then, where this script's own has it, one with it, in which the old client takes
so long (it imports TensorFlow once per replica) that the large case is left out and the others are run once.

    python benchmarks/local_train.py [RUNS]
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
TRAINER = """
import json, os, pathlib, signal, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
now = time.time()
# When the kernel made this process: what Python needs to start is nobody's overhead.
try:
    ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
    made = now - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
except (OSError, AttributeError):
    made = now
name = f"{task.get('type', 'chief')}-{task.get('index', 0)}"
pathlib.Path(sys.argv[1], name).write_text(f"{made} {now}")
time.sleep(1 if name == "chief-0" else 600)
pathlib.Path(sys.argv[1], "end").write_text(str(time.time()))
"""


@dataclass(frozen=True)
class Case:
    """A cluster: nobody but the chief where both counts are None."""

    name: str
    workers: int | None = None
    parameter_servers: int | None = None

    @property
    def flags(self) -> list[str]:
        """The old client's flags, which are ours."""
        if self.workers is None:
            return []
        counts = ["--worker-count", str(self.workers), "--parameter-server-count", str(self.parameter_servers)]
        return ["--distributed", *counts]

    @property
    def tasks(self) -> list[dict[str, str | int]]:
        """Every replica's task in TF_CONFIG."""
        kinds = {"chief": 1, "ps": self.parameter_servers or 0, "worker": self.workers or 0}
        return [{"type": kind, "index": index} for kind, count in kinds.items() for index in range(count)]


@dataclass(frozen=True)
class Times:
    """Of one run, in seconds from the command on; ``tail`` from the chief's end to the command's."""

    first: float
    last: float
    whole: float
    tail: float


CASES = (Case("single process"), Case("2 workers, 2 ps", 2, 2), Case("8 workers, 4 ps", 8, 4))


def alone(case: Case, python: str, folder: Path) -> None:
    """The floor: the processes, and a signal to those that are left."""
    processes = [
        subprocess.Popen(
            [python, "-m", "trainer.task", str(folder / "out")],
            cwd=folder,
            env={**os.environ, "TF_CONFIG": json.dumps({"task": task})},
        )
        for task in case.tasks
    ]
    processes[0].wait()
    for process in processes[1:]:
        process.send_signal(signal.SIGTERM)
    for process in processes[1:]:
        process.wait()


def encamp(case: Case, python: str, folder: Path) -> None:
    """Ours."""
    subprocess.run(
        [sys.executable, "-c", "from encamp.cli.main import main; main()", "local", "train", "--python", python,
         "--module-name", "trainer.task", "--package-path", "trainer", *case.flags, "--", str(folder / "out")],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "infra")}, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def old_client(case: Case, python: str, folder: Path) -> None:
    """What it was before; it is asked for nothing but its local run, and has no account."""
    env = {
        **os.environ,
        "CLOUDSDK_CONFIG": str(folder / "config"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "local",
        "CLOUDSDK_ML_ENGINE_LOCAL_PYTHON": python,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    subprocess.run(
        ["gcloud", "ai-platform", "local", "train", "--module-name", "trainer.task", "--package-path", "trainer",
         *case.flags, "--", str(folder / "out")],
        cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def measured(run: Callable[[Case, str, Path], None], case: Case, python: str) -> Times:
    """One run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for made in ("trainer", "out", "config"):
            (folder / made).mkdir()
        (folder / "trainer" / "__init__.py").touch()
        (folder / "trainer" / "task.py").write_text(TRAINER)
        begun = time.time()
        run(case, python, folder)
        ended = time.time()
        chief_end = float((folder / "out" / "end").read_text())
        made = [float(file.read_text().split()[0]) for file in (folder / "out").glob("*-*")]
        missing = len(case.tasks) - len(made)
        if missing:
            # It was ended before it could write; the chief's end is the earliest that it can have come.
            print(f"  {missing} replicas had not begun when the chief ended")
        return Times(min(made) - begun, max(made) - begun, ended - begun, ended - chief_end)


def compare(python: str, cases: Iterable[Case], contenders: Sequence[Callable[..., None]], runs: int) -> None:
    """Take turns, so that whatever else the machine does hits all alike; report medians and their ratio."""
    for case in cases:
        taken: dict[str, list[Times]] = {run.__name__: [] for run in contenders}
        for _ in range(runs):
            for run in contenders:
                taken[run.__name__].append(measured(run, case, python))
        print(f"{case.name}")
        floor = statistics.median(times.whole for times in taken["alone"])
        for name, found in taken.items():
            first, last, whole, tail = (
                statistics.median(getattr(times, what) for times in found)
                for what in ("first", "last", "whole", "tail")
            )
            print(
                f"  {name:11} first replica {first:6.3f} s  last {last:6.3f} s  after the chief {tail:6.3f} s"
                f"  whole {whole:6.2f} s  {whole / floor:5.2f} x floor"
            )


def main(runs: int) -> None:
    """Both Pythons."""
    peers = [old_client] if shutil.which("gcloud") else []
    if not peers:
        print("no gcloud on PATH: against the floor alone")
    # The Python that a virtual environment was made of has none of its packages.
    bare = shutil.which(f"python3.{sys.version_info.minor}", path=str(Path(sys.base_prefix) / "bin")) or sys.executable
    print("a Python without TensorFlow:")
    compare(bare, CASES, [alone, encamp, *peers], runs)
    if importlib.util.find_spec("tensorflow") is not None and peers:
        print("a Python with TensorFlow, one run each:")
        compare(sys.executable, CASES[:2], [alone, encamp, *peers], 1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
