"""A trainer that attacks: it writes what only drivers write, and reads and writes other jobs' results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.main_job.job_files import write_job

if TYPE_CHECKING:
    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

BUCKET = "sandbox-encamp-artifacts"
JOB_ID = "hostile"
#: Says of each attempt, on a line of its own, which status it was answered with.
TRAINER = """
import json, sys, urllib.error, urllib.parse, urllib.request

METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
STORAGE = "https://storage.googleapis.com"
BUCKET = "sandbox-encamp-artifacts"
RECEIPT = {"version": 2, "jobId": "hostile", "name": "hostile", "environment": "sandbox",
    "outcome": {"state": "SUCCEEDED", "message": "", "failure": None}, "times": {}, "left": [],
    "cost": {"currency": "USD", "amount": -5000.0, "machines": {}, "unpriced": []}}


def asked(method, path, data=None):
    token = urllib.request.urlopen(urllib.request.Request(METADATA, headers={"Metadata-Flavor": "Google"}), timeout=60)
    headers = {"Authorization": "Bearer " + json.loads(token.read())["access_token"]}
    request = urllib.request.Request(STORAGE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def quoted(text):
    return urllib.parse.quote(text, safe="")


def write(name):
    path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quoted(name)}"
    return asked("POST", path, json.dumps(RECEIPT).encode())


def read(name):
    return asked("GET", f"/storage/v1/b/{BUCKET}/o/{quoted(name)}?alt=media")


def delete(name):
    return asked("DELETE", f"/storage/v1/b/{BUCKET}/o/{quoted(name)}")


def listed(prefix):
    return asked("GET", f"/storage/v1/b/{BUCKET}/o?prefix={quoted(prefix)}")


def copied(name, to):
    return asked("POST", f"/storage/v1/b/{BUCKET}/o/{quoted(name)}/rewriteTo/b/{BUCKET}/o/{quoted(to)}", b"{}")


own = "jobs/hostile/"
attempts = {
    "own output": write(own + "output/model"),
    "own output read": read(own + "output/model"),
    "own output listed": listed(own + "output/"),
    "receipt": write(own + "receipt.json"),
    "manifest": write(own + "logs/manifest.json"),
    "log": write(own + "logs/master-replica-0.log"),
    "times": write(own + "logs/times.jsonl"),
    "trials": write(own + "trials.json"),
    "page": write(own + "tuning.html"),
    "own folder listed": listed(own),
    "output's like": write("jobs/hostile/outputs/x"),
    "job's like": write("jobs/hostile2/output/x"),
    "note": write("expiry/2020-01-01T00:00:00Z/victim.json"),
    "victim written": write("jobs/victim/output/model"),
    "victim read": read("jobs/victim/output/model"),
    "victim deleted": delete("jobs/victim/output/model"),
    "victim listed": listed("jobs/victim/"),
    "victim copied": copied("jobs/victim/output/model", own + "output/stolen"),
    "copied to receipt": copied(own + "output/model", own + "receipt.json"),
    "bucket listed": listed(""),
    "policy": asked("GET", f"/storage/v1/b/{BUCKET}/iam"),
}
print("attempts " + json.dumps(attempts))
sys.stdout.flush()
"""
ALLOWED = {"own output", "own output read", "own output listed"}
_OK, _FORBIDDEN = 200, 403


@pytest.fixture(scope="module")
def attempts(shared_camp: Camp, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What each attempt of the trainer was answered with."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        shared_camp.enter(patch)
        shared_camp.storage().upload(BUCKET, "jobs/victim/output/model", b"months of work")
        said = shared_camp.encamp(
            "run", write_job(folder, TRAINER, {"storage": {"kind": "ENVIRONMENT"}}), "--job-id", JOB_ID
        )
    assert "the job is SUCCEEDED" in said
    line = next(line for line in said.splitlines() if "attempts {" in line)
    found: dict[str, int] = json.loads(line[line.index("{") :])
    return found


def test_a_trainer_writes_its_output_and_nothing_else(attempts: dict[str, int]) -> None:
    assert {name: status for name, status in attempts.items() if name in ALLOWED} == dict.fromkeys(ALLOWED, _OK)
    others = {name: status for name, status in attempts.items() if name not in ALLOWED}
    assert others == dict.fromkeys(others, _FORBIDDEN)


def test_what_is_shown_of_the_job_is_what_its_driver_wrote(shared_camp: Camp, attempts: dict[str, int]) -> None:
    assert attempts
    with pytest.MonkeyPatch.context() as patch:
        shared_camp.enter(patch)
        receipt = shared_camp.receipt(JOB_ID)
        assert shared_camp.storage().read(BUCKET, "jobs/victim/output/model") == b"months of work"
    assert receipt["cost"]["amount"] >= 0
    assert "attempts {" in shared_camp.encamp("logs", JOB_ID)
    found = json.loads(shared_camp.encamp("receipts", "--format", "json"))
    (own,) = [one for one in found["receipts"] if one["jobId"] == JOB_ID]
    assert own["cost"] == receipt["cost"]
