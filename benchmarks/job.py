"""What a job costs beside its training: `encamp run` in the sandbox against the same trainer alone on this machine.

The floor is the example's trainer as three processes that find each other on loopback, without any infrastructure. The
sandbox must be up, and its environment too: `encamp sandbox up && encamp environment up`.

    python benchmarks/job.py [RUNS]
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLE = REPOSITORY / "examples" / "digits"
ARGUMENTS = ["--epochs=20", "--batch-size=32"]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def alone() -> float:
    """Seconds of three trainer processes from the first start to the chief's end."""
    places = {"chief": [f"127.0.0.1:{free_port()}"], "worker": [f"127.0.0.1:{free_port()}" for _ in range(2)]}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "trainer.task", *ARGUMENTS, "--job-dir", folder],
                cwd=EXAMPLE,
                env={
                    **os.environ,
                    "TF_CONFIG": json.dumps({"cluster": places, "task": {"type": kind, "index": index}}),
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for kind, hosts in places.items()
            for index in range(len(hosts))
        ]
        codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"the trainer failed alone: {codes}")
    return time.perf_counter() - begun


def job() -> float:
    """Seconds of `encamp run`, from the command to its exit."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from encamp.cli.main import main; main()", "run", str(EXAMPLE / "job.yaml"),
         "--job-id", f"bench_{time.time_ns()}"],
        cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - begun


def main(runs: int) -> None:
    """Take turns and report the medians and their ratio."""
    floors, jobs = [], []
    for _ in range(runs):
        floors.append(alone())
        jobs.append(job())
    floor, whole = statistics.median(floors), statistics.median(jobs)
    print(f"the trainer alone            {floor:6.1f} s")
    print(f"encamp run, whole life       {whole:6.1f} s  {whole / floor:5.2f} x floor")
    print(f"beside the training          {whole - floor:6.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
