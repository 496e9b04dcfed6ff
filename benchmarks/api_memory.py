"""What the jobs API holds in memory of 10,000 jobs, and how long it takes to know them: every tenth one is large.

A large job has as many arguments as a job may have, twice in the record: as it was sent, and in its driver's intent. A
process of its own opens the record as the service does, reads every job, and lists all of them page by page. Its floor
is the same process with an empty record.

    python benchmarks/api_memory.py [JOBS] [BYTES OF THE ARGUMENTS OF EACH TENTH]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

JOBS, LARGE = 10_000, 64_000
_ARGUMENT = 1_000


def job(number: int, size: int) -> dict[str, Any]:
    """A job whose arguments have a size in bytes."""
    words = [str(number).rjust(_ARGUMENT - 1, "x")] * (size // _ARGUMENT)
    return {
        "jobId": f"job_{number}",
        "labels": {"team": "vision"},
        "trainingInput": {
            "scaleTier": "BASIC",
            "region": "us-central1",
            "packageUris": ["gs://my-bucket/trainer-0.1.tar.gz"],
            "pythonModule": "trainer.task",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "args": ["--epochs", "3", *words],
        },
    }


def fill(folder: Path, jobs: int, large: int) -> None:
    """Write a record of jobs that have all ended."""
    from sqlalchemy import insert  # noqa: PLC0415 - who measures needs none of it

    from encamp.run.store.journal import digest  # noqa: PLC0415
    from encamp.run.store.records import Records  # noqa: PLC0415
    from encamp.run.store.tables import JOBS as ROWS  # noqa: PLC0415
    from encamp.run.store.tables import JOURNAL, WRITES  # noqa: PLC0415

    records = Records.open(None, folder)
    with records.transactions.database.connect().execution_options(**{WRITES: True}) as connection:
        for start in range(0, jobs, 500):
            with connection.begin():
                for number in range(start, min(start + 500, jobs)):
                    at = 1_790_000_000.0 + number
                    connection.execute(insert(ROWS).values(job_id=f"job_{number}", name=f"job-{number}", created=at))
                    sent = job(number, large if number % 10 == 0 else 0)
                    entries = [
                        ("submitted", {"environment": "sandbox", "job": sent, "by": "ana@example.com", "priority": 0}),
                        *(("state", {"state": state}) for state in ("QUEUED", "PREPARING")),
                        ("intent", {"environment": "sandbox", "job": sent, "pools": [{"name": "p", "node": "n1"}] * 3}),
                        *(("state", {"state": state}) for state in ("RUNNING", "SUCCEEDED")),
                        ("outcome", {"state": "SUCCEEDED", "message": ""}),
                        ("gone", {}),
                    ]
                    rows = [
                        {"job_id": f"job_{number}", "at": at, "kind": kind, "data": data, "digest": digest(kind, data)}
                        for kind, entry in entries
                        for data in [json.dumps(entry, sort_keys=True)]
                    ]
                    connection.execute(insert(JOURNAL), rows)
    records.close()


def measure(folder: Path) -> dict[str, float]:
    """What a process takes that knows the jobs of a record, in MiB: before, then, after all pages and at most."""
    import psutil  # noqa: PLC0415

    from encamp.api.index import Index  # noqa: PLC0415
    from encamp.run.store.records import Records  # noqa: PLC0415

    process = psutil.Process()
    records = Records.open(None, folder)
    index = Index(records, "sandbox", dict)
    before = process.memory_info().rss
    begun = time.perf_counter()
    index.refresh()
    known = time.perf_counter() - begun
    after = process.memory_info().rss
    shown = sum(len(text) for _, text in index.shown(index.newest_first()))
    listed = process.memory_info().rss
    index.close()
    records.close()
    peak = float(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    found = {"before": before, "known": after, "listed": listed, "peak": peak}
    return {name: value / 2**20 for name, value in found.items()} | {"seconds": known, "shown": shown / 2**20}


def main() -> None:
    """Print a table."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    large = int(sys.argv[2]) if len(sys.argv) > 2 else LARGE  # noqa: PLR2004
    print("   jobs  shown MiB   before    known   listed     peak MiB  KiB a job  seconds")
    for count in (0, jobs):
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), count, large)
            child = [sys.executable, __file__, "measure", folder]
            found = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
        each = (found["listed"] - found["before"]) * 1024 / max(count, 1)
        row = " ".join(f"{found[name]:>8.1f}" for name in ("before", "known", "listed", "peak"))
        print(f"{count:>7} {found['shown']:>10.1f} {row}      {each:>9.2f}  {found['seconds']:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main()
