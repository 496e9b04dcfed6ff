"""Servers and drivers killed while jobs wait, begin and train: each of them trains once."""

from __future__ import annotations

import io
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from encamp.packaging.wheel import pack

if TYPE_CHECKING:
    from tests.camp import Camp, Command

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

BUCKET = "sandbox-encamp-artifacts"
JOBS = "v1/projects/sandbox-encamp/jobs"
#: Leaves a mark of its own in its job dir each time that it runs.
TASK = b"""
import pathlib, sys, time, uuid
folder = pathlib.Path(sys.argv[sys.argv.index("--job-dir") + 1].replace("gs://", "/gcs/"))
folder.mkdir(parents=True, exist_ok=True)
(folder / uuid.uuid4().hex).write_text("trained")
time.sleep(4)
"""
KILLED = ("killed_1", "killed_2", "killed_3", "killed_4")


class Serving:
    """A started server, two drivers at once."""

    def __init__(self, camp: Camp) -> None:
        self.command: Command = camp.start("serve", "--port", "0", "--drivers", "2")
        said = self.command.until("static_discovery")
        (url,) = re.findall(r"^export ENCAMP_API_URL=(\S+)$", said, re.MULTILINE)
        headers = {"Authorization": f"Bearer {camp.layout.token}"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def states(self) -> dict[str, str]:
        listed = self.client.get(JOBS, params={"filter": "jobId:killed_*"}).raise_for_status().json()
        return {job["jobId"]: job["state"] for job in listed.get("jobs", [])}

    def kill(self) -> None:
        self.client.close()
        self.command.process.kill()
        self.command.process.wait()


def drivers(camp: Camp) -> list[psutil.Process]:
    """The drivers of jobs that were handed in, of this sandbox."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            here = process.environ().get("ENCAMP_SANDBOX_DIR") == str(camp.layout.root)
        except psutil.Error:
            continue
        if here and "drive" in words and "--submitted" in words:
            found.append(process)
    return found


def body(job_id: str, package: str, **scheduling: Any) -> dict[str, Any]:
    training = {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": [package],
        "pythonModule": "counter.task",
        "jobDir": f"gs://{BUCKET}/jobs/{job_id}/output/marks/",
        "scheduling": scheduling,
    }
    return {"jobId": job_id, "trainingInput": training, "encamp": {"mounts": [{"jobDir": True}]}}


def test_servers_and_drivers_are_killed_and_each_job_trains_once(camp: Camp) -> None:
    name, wheel = pack("counter", {"__init__.py": b"", "task.py": TASK})
    camp.storage().upload(BUCKET, f"packages/{name}", io.BytesIO(wheel), "application/zip")
    package = f"gs://{BUCKET}/packages/{name}"
    server = Serving(camp)
    for job_id in KILLED:
        made = server.client.post(JOBS, json=body(job_id, package, priority=int(job_id == "killed_4")))
        assert made.json()["state"] == "QUEUED", made.text
    # While the first drivers come up, and have begun nothing.
    camp.until(lambda: bool(drivers(camp)), seconds=30)
    server.kill()
    os.kill(drivers(camp)[0].pid, signal.SIGKILL)
    server = Serving(camp)
    assert len(server.states()) == len(KILLED)
    # While they train.
    camp.until(lambda: "RUNNING" in server.states().values())
    server.kill()
    os.kill(drivers(camp)[0].pid, signal.SIGKILL)
    server = Serving(camp)
    camp.until(lambda: set(server.states().values()) == {"SUCCEEDED"}, seconds=240)
    again = server.client.post(JOBS, json=body("killed_1", package, priority=7))
    assert again.json()["error"]["status"] == "ALREADY_EXISTS"
    server.kill()
    kept = {one.name for one in camp.storage().objects(BUCKET, "jobs/killed_") if "/output/marks/" in one.name}
    marks = [name.split("/")[1] for name in kept if not name.endswith("/")]
    assert sorted(marks) == list(KILLED), (kept, *(camp.encamp("logs", job_id) for job_id in KILLED))
    for job_id in KILLED:
        # Also without a server every one is brought to its end.
        camp.encamp("attach", job_id)
        camp.assert_nothing_left(job_id)
    camp.until(lambda: not drivers(camp), seconds=30)
