"""``encamp serve`` as a process: who is answered, what is written down, and how it ends without its jobs."""

from __future__ import annotations

import io
import json
import re
import signal
import tarfile
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.camp import Camp, Command

pytestmark = pytest.mark.sandbox

JOBS = "v1/projects/sandbox-encamp/jobs"
PACKAGE = "packages/sleeper-0.0.0.tar.gz"
FILES = {
    "setup.py": "from setuptools import setup\nsetup(name='sleeper', version='0.0.0', packages=['sleeper'])\n",
    "sleeper/__init__.py": "",
    "sleeper/task.py": "import sys, time\nprint('asleep', flush=True)\ntime.sleep(float(sys.argv[-1]))\n",
}


class Api:
    """A started ``encamp serve``, and a client of it with the sandbox's token."""

    def __init__(self, camp: Camp, *words: str) -> None:
        self.command: Command = camp.start("serve", "--port", "0", *words)
        said = self.command.until("static_discovery")
        (url,) = re.findall(r"^export ENCAMP_API_URL=(\S+)$", said, re.MULTILINE)
        self.url: str = url
        headers = {"Authorization": f"Bearer {camp.layout.token}"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{JOBS}/{job_id}").raise_for_status().json()
        return found

    def end(self) -> str:
        self.client.close()
        self.command.process.send_signal(signal.SIGTERM)
        return self.command.ends(0)


def package() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"sleeper-0.0.0/{name}")
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return made.getvalue()


def body(job_id: str, seconds: float, bucket: str) -> dict[str, Any]:
    training = {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": [f"gs://{bucket}/{PACKAGE}"],
        "pythonModule": "sleeper.task",
        "args": [str(seconds)],
    }
    return {"jobId": job_id, "trainingInput": training}


def test_who_has_the_sandboxs_token_is_answered_and_nobody_else(camp: Camp) -> None:
    api = Api(camp)
    token = camp.layout.token
    with httpx.Client(base_url=api.url, trust_env=False, timeout=60) as stranger:
        assert stranger.get(JOBS).status_code == 401
        assert stranger.get(JOBS, headers={"Authorization": "Bearer x"}).status_code == 401
        assert [stranger.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        # Whom no team of the environment has may do nothing.
        ana = {"Authorization": f"Bearer {camp.encamp('sandbox', 'token', '--for', 'user:ana@example.com').strip()}"}
        assert [stranger.get(path, headers=ana).status_code for path in (JOBS, f"{JOBS}/none")] == [403, 403]
        discovered = stranger.get("/$discovery/rest", params={"version": "v1"}).json()
    assert discovered["rootUrl"] == f"{api.url}/"
    assert api.client.get(JOBS).status_code == 200
    assert api.client.get("v1/projects/another-project/jobs").status_code in {403, 404}
    assert api.client.get(f"{JOBS}/x%0aforged").status_code in {400, 404}
    assert api.client.get(f"{JOBS}/none").json()["error"]["status"] == "NOT_FOUND"
    port = api.url.rpartition(":")[2]
    assert "another program listens there already" in camp.encamp("serve", "--port", port, code=2)
    said = api.end()
    assert "SIGTERM" in said
    assert token not in said
    assert "\nforged" not in said
    written = (camp.layout.root / "state" / "audit.jsonl").read_text()
    assert token not in written
    entries = [json.loads(line)["protoPayload"] for line in written.splitlines()]
    calls = [(entry["methodName"].rpartition(".")[2], entry["status"].get("code", 0)) for entry in entries]
    # google.rpc.Code: 16 is UNAUTHENTICATED, 7 is PERMISSION_DENIED, 5 is NOT_FOUND.
    assert {("ListJobs", 0), ("ListJobs", 7), ("ListJobs", 16), ("GetJob", 5), ("GetJob", 7)} <= set(calls)


@pytest.mark.jobs
def test_jobs_go_on_without_the_server_and_the_next_one_begins_what_waits(camp: Camp) -> None:
    bucket = "sandbox-encamp-artifacts"
    camp.storage().upload(bucket, PACKAGE, io.BytesIO(package()), "application/x-tar")
    api = Api(camp, "--drivers", "1")
    for job_id, seconds in (("served_1", 12.0), ("served_2", 0.0)):
        assert api.client.post(JOBS, json=body(job_id, seconds, bucket)).json()["state"] == "QUEUED"
    camp.until(lambda: api.job("served_1")["state"] == "RUNNING")
    assert (api.job("served_2")["state"], api.job("served_2")["jobPosition"]) == ("QUEUED", "1")
    api.end()

    def listed() -> dict[str, str]:
        jobs = json.loads(camp.encamp("list", "--format", "json"))
        return {job["jobId"]: job["state"] for job in jobs}

    camp.until(lambda: listed()["served_1"] == "SUCCEEDED", seconds=180)
    # Nobody serves: what waits is begun by nobody.
    assert listed()["served_2"] == "QUEUED"
    api = Api(camp)
    camp.until(lambda: api.job("served_2")["state"] == "SUCCEEDED", seconds=180)
    first, second = (api.job(job_id) for job_id in ("served_1", "served_2"))
    assert first["endTime"] < second["startTime"]
    api.end()
    camp.until(lambda: all(job.get("driver") is None for job in json.loads(camp.encamp("list", "--format", "json"))))
    for job_id in ("served_1", "served_2"):
        camp.assert_nothing_left(job_id)
