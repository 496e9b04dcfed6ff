"""How long `encamp plan` takes, against the floor of starting Python with the libraries that any such tool imports.

python benchmarks/plan.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
JOB = str(REPOSITORY / "examples" / "digits" / "job.yaml")
BIG = str(REPOSITORY / "benchmarks" / "seventy-workers.yaml")
CASES = {
    "floor: import click, pydantic, yaml, jinja2": ["-c", "import click, pydantic, yaml, jinja2"],
    "encamp plan, 3 replicas": ["-c", "from encamp.cli.main import main; main()", "plan", JOB],
    "encamp plan, 71 replicas, json, --full": [
        "-c", "from encamp.cli.main import main; main()", "plan", BIG, "--format", "json", "--full",
    ],
    "encamp manifests, 3 replicas": ["-c", "from encamp.cli.main import main; main()", "manifests", JOB],
}  # fmt: skip


def seconds(arguments: list[str]) -> float:
    """Wall time of one start of Python."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - begun


def main(runs: int) -> None:
    """Take turns, so that whatever else the machine does hits every case alike."""
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(runs):
        for name, arguments in CASES.items():
            taken[name].append(seconds(arguments))
    floor = statistics.median(next(iter(taken.values())))
    for name, times in taken.items():
        middle = statistics.median(times)
        print(f"{name:44} {middle:6.3f} s  {middle / floor:5.2f} x floor  (min {min(times):.3f}, max {max(times):.3f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
