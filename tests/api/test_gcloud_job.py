"""One job from gcloud's upload to the last line of its log, through the sandbox; where gcloud is missing, as it was
recorded, and with its way of reading logs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.api.gcloud.harness import GCLOUD, body_of, recorded
from tests.api.test_logs import GCLOUD as STREAMER
from tests.api.test_logs import NOON, Stream

from encamp_sandbox.environment import variables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.camp import Camp

    from encamp.api.caller import Caller

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

BUCKET = "sandbox-encamp-artifacts"
JOBS = "v1/projects/sandbox-encamp/jobs"
TASK = """
import sys, time
print("begins with", *sys.argv[1:], flush=True)
time.sleep(8)
print("the last words", flush=True)
"""
CONFIG = "trainingInput: {scaleTier: CUSTOM, masterType: n1-standard-4, workerType: n1-standard-4, workerCount: 1}\n"


class Over:
    """entries:list over HTTP, for what reads as gcloud does."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def list(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - of the protocol
        found: dict[str, Any] = self._client.post("v2/entries:list", json=dict(body)).raise_for_status().json()
        return found

    def unread(self, caller: Caller, job_id: str, user_agent: str) -> bool:  # noqa: ARG002
        """The service keeps back the end itself."""
        return False


def _by_gcloud(camp: Camp, exports: dict[str, str], folder: Path) -> list[tuple[str, str]]:
    """Submit and stream; what it showed, as task and text."""
    package = folder / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(TASK)
    (folder / "config.yaml").write_text(CONFIG)
    environment = {**os.environ, **variables(camp.layout), **exports, "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL": "1"}
    for name in [name for name in environment if name.lower().endswith("_proxy")]:
        del environment[name]
    assert GCLOUD is not None
    call = [
        *(GCLOUD, "ai-platform", "jobs", "submit", "training", "by_gcloud", "--module-name", "trainer.task"),
        *("--package-path", "trainer", "--staging-bucket", f"gs://{BUCKET}", "--config", "config.yaml"),
        *("--runtime-version", "2.11", "--python-version", "3.7", "--stream-logs", "--", "--epochs", "3"),
    ]
    said = subprocess.run(call, cwd=folder, env=environment, text=True, capture_output=True, timeout=280, check=False)
    assert said.returncode == 0, said.stderr
    assert "state: SUCCEEDED" in said.stdout
    assert "endTime: " in said.stdout
    rows = [line.split("\t") for line in said.stderr.splitlines()]
    return [(row[2], row[4]) for row in rows if len(row) == 5]


def _by_requests(camp: Camp, exports: dict[str, str], _: Path) -> list[tuple[str, str]]:
    """The same with what gcloud sent."""
    upload, create = recorded()["package_path"]
    headers = {"authorization": f"Bearer {camp.layout.token}"}
    front = f"http://127.0.0.1:{camp.layout.ports.front}"
    target = upload["target"].replace("/b/staging/", f"/b/{BUCKET}/")
    answer = httpx.post(
        front + target, headers={**headers, **upload["headers"]}, content=body_of(upload), trust_env=False
    )
    assert answer.status_code == 200, answer.text
    job = create["json"]
    job["jobId"] = "by_requests"
    training = job["trainingInput"]
    training["packageUris"] = [uri.replace("//staging/", f"//{BUCKET}/") for uri in training["packageUris"]]
    with httpx.Client(
        base_url=exports["ENCAMP_API_URL"], headers={**headers, "user-agent": STREAMER}, timeout=60, trust_env=False
    ) as client:
        client.post(f"{JOBS}?alt=json", json=job).raise_for_status()
        stream = Stream(Over(client), 1, job_id="by_requests")
        begun = int(time.time())
        for second in range(250):
            time.sleep(max(0.0, begun + second - time.time()))
            # The client looks at the job at every tenth second of its own.
            ended = stream.empty > 1 and "endTime" in client.get(f"{JOBS}/by_requests").json()
            stream.tick(begun + second - NOON, ended=ended)
            if stream.over:
                return stream.shown
    raise AssertionError(stream.shown)


@pytest.mark.parametrize("how", ["requests", *(["gcloud"] if GCLOUD is not None else [])])
def test_a_job_from_the_upload_to_the_last_line_of_its_log(camp: Camp, tmp_path: Path, how: str) -> None:
    server = camp.start("serve", "--port", "0")
    said = server.until("static_discovery")
    exports = dict(re.findall(r"^export (\w+)=(\S+)$", said, re.MULTILINE))
    shown = (_by_gcloud if how == "gcloud" else _by_requests)(camp, exports, tmp_path)
    service = [text for task, text in shown if task == "service"]
    assert service[0] == "The job was accepted and is queued."
    assert service[-1] == "The job has completed successfully."
    assert shown[-1] == ("service", service[-1])
    # The machines go after the last line.
    camp.until(lambda: camp.storage().read(BUCKET, f"jobs/by_{how}/receipt.json") is not None)
    receipt = json.loads(camp.read(f"by_{how}", "receipt.json"))
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    for replica in {task for task, _ in shown} - {"service"}:
        log = camp.read(f"by_{how}", f"logs/{replica}.log").splitlines()
        assert [text for task, text in shown if task == replica] == log
        assert ("the last words" if how == "gcloud" else "trained") in log
    server.process.terminate()
    server.ends(0)
    camp.assert_nothing_left(f"by_{how}")
