"""Secrets that a job is given, and those that drive it, are where they must be and in no other file of a run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.run.engine.workspace import make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

PROJECT = "sandbox-encamp"
SIGNATURE, PASSWORD = "canary0signature0a1b2c3d", "canary0password"
URL = f"https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature={SIGNATURE}"
#: The cluster's own store: what replicas are given stands in their pods, and nobody else's key opens it there.
CLUSTER = "data/etcd/member"


def found(secret: str, *folders: Path) -> list[str]:
    """Every file under the folders that holds a secret, relative to the first."""
    return sorted(
        os.path.relpath(path, folders[0])
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and _holds(path, secret.encode())
    )


def _holds(path: Path, secret: bytes) -> bool:
    before = b""
    with path.open("rb") as stream:
        while piece := stream.read(1024 * 1024):
            if secret in before + piece:
                return True
            before = piece[-len(secret) :]
    return False


def test_what_a_job_is_given_in_secret_is_found_in_the_cluster_alone(
    camp: Camp, job: Callable[..., str], tmp_path: Path
) -> None:
    text = f"db=postgresql://me:{PASSWORD}@db.example/x"
    path = job("chief-0=exit:0:3", f"data={URL}", text)
    here = tmp_path / "temporary"
    here.mkdir()
    camp.environment["TMPDIR"] = str(here)
    try:
        said = camp.encamp("run", path, "--job-id", "secrets")
        said += camp.encamp("describe", "secrets", "--format", "json") + camp.encamp("logs", "secrets")
    finally:
        del camp.environment["TMPDIR"]
    assert "the job is SUCCEEDED" in said
    for secret in (SIGNATURE, PASSWORD):
        assert secret not in said
        places = found(secret, camp.layout.root, here, camp.outputs)
        assert [place for place in places if not place.startswith(CLUSTER)] == []
        # What is looked for can be found at all.
        assert places
    for name in ("receipt.json", "logs/manifest.json"):
        assert "canary0" not in camp.read("secrets", name)


def test_what_a_stacks_config_marks_is_found_in_the_cluster_alone(
    camp: Camp, job: Callable[..., str], tmp_path: Path
) -> None:
    mark = "canary0mark"
    file = Path(job("chief-0=sleep"))
    config: dict[str, Any] = {
        "gcp:project": PROJECT,
        "encamp:environmentStack": "sandbox",
        "encamp:jobFolder": str(file.parent),
        "encamp:job": {"jobId": "marked", **yaml.safe_load(file.read_text())},
    }
    config["encamp:job"]["trainingInput"]["args"].append("--act")
    folder = tmp_path / "workspace"
    make_workspace(folder, "job-marked", config)

    def engine(*words: str) -> str:
        return camp.tool("pulumi", "-C", str(folder), *words, "-s", "job-marked", "--non-interactive", "--color=never")

    camp.tool("pulumi", "-C", str(folder), "stack", "init", "job-marked", "--non-interactive")
    engine("config", "set", "--secret", "--path", "encamp:job.trainingInput.args[2]", f"x={mark}")
    said = engine("preview", "--diff") + engine("up", "--yes", "--skip-preview", "--diff") + engine("stack", "export")
    try:
        (job_set,) = json.loads(camp.tool("kubectl", "get", "jobsets", "-n", "encamp-jobs", "-o", "json"))["items"]
        assert mark in json.dumps(job_set["spec"])
        assert mark not in said
        places = found(mark, camp.layout.root, folder, camp.outputs)
        pods = "data/kubelet/"
        assert [place for place in places if not place.startswith((CLUSTER, pods))] == []
    finally:
        engine("destroy", "--yes", "--skip-preview")
        engine("stack", "rm", "--yes")
    camp.assert_nothing_left()


def test_the_token_of_the_cluster_is_with_its_owner_alone(camp: Camp) -> None:
    plugin = subprocess.run(
        ["gke-gcloud-auth-plugin"], env=camp.environment, capture_output=True, text=True, timeout=60, check=True
    )
    token = json.loads(plugin.stdout)["status"]["token"]
    own = {"sandbox.json", "pki/tokens.csv", "bin/gke-gcloud-auth-plugin", "access-token"}
    assert set(found(token, camp.layout.root, camp.outputs)) <= own
    # gcloud reads it there.
    assert (camp.layout.root / "access-token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("variable", ["ENCAMP_RECORD_URL", "PULUMI_BACKEND_URL"])
def test_a_password_of_a_backend_is_in_no_message(camp: Camp, variable: str) -> None:
    scheme = "postgresql" if variable == "ENCAMP_RECORD_URL" else "postgres"
    before = camp.environment.get(variable)
    camp.environment[variable] = f"{scheme}://me:{PASSWORD}9@127.0.0.1:1/state?sslmode=disable"
    try:
        command = camp.start("reap", "--dry-run")
        command.process.wait(120)
    finally:
        if before is None:
            del camp.environment[variable]
        else:
            camp.environment[variable] = before
    assert command.process.returncode in (2, 3)
    assert command.said()
    assert f"{PASSWORD}9" not in command.said()
    assert found(f"{PASSWORD}9", camp.layout.root, camp.outputs) == []
