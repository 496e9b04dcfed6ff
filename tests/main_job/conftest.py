"""One sandbox with its environment up, for all tests of whole jobs; and ``encamp`` as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage
from encamp.sandbox.environment import variables
from encamp.sandbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
ENCAMP = [sys.executable, "-c", "from encamp.cli.main import main; main()"]
BUCKET = "sandbox-encamp-artifacts"
RUN_SECONDS = 300


@dataclass
class Camp:
    """A running sandbox as users meet it."""

    layout: Layout
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``encamp``; what it says comes through one pipe."""
        process = subprocess.Popen(
            [*ENCAMP, *arguments],
            cwd=REPOSITORY,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process

    def encamp(self, *arguments: str, code: int = 0) -> str:
        """Run ``encamp`` to its end, which must be ``code``."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == code, said
        return said

    def pulumi(self, *arguments: str, code: int = 0) -> str:
        """Run the engine by hand in the repository."""
        return self.tool("pulumi", *arguments, "--non-interactive", "--color=never", code=code)

    def tool(self, *command: str, code: int = 0) -> str:
        ended = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout

    def storage(self) -> Storage:
        return Storage(GoogleClient())

    def read(self, job_id: str, name: str) -> str:
        """A kept object of a job."""
        content = self.storage().read(BUCKET, f"jobs/{job_id}/{name}")
        assert content is not None, name
        return content.decode()

    def receipt(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read(job_id, "receipt.json"))
        return found

    def assert_nothing_left(self) -> None:
        """What the cloud, the cluster and the engine list is the environment's alone."""
        storage = self.storage()
        assert [bucket["name"] for bucket in storage.buckets("sandbox-encamp")] == [BUCKET]
        for kind in ("jobsets", "jobs", "pods", "configmaps", "services"):
            names = self.tool("kubectl", "get", kind, "-n", "encamp-jobs", "-o", "name").split()
            assert [name for name in names if name != "configmap/kube-root-ca.crt"] == []
        stacks = {
            stack["name"]: stack.get("resourceCount") or 0 for stack in json.loads(self.pulumi("stack", "ls", "--json"))
        }
        assert {name for name, count in stacks.items() if count} == {"sandbox"}
        assert set(stacks) == {"sandbox", "digits"}


@pytest.fixture(scope="session")
def camp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    root = tmp_path_factory.mktemp("camp") / "sb"
    environment = {
        **os.environ,
        "ENCAMP_SANDBOX_DIR": str(root),
        "ENCAMP_SANDBOX_IDLE_SECONDS": "2",
        "PYTHONPATH": str(REPOSITORY / "infra"),
    }
    for name in ("PULUMI_BACKEND_URL", "ENCAMP_RECORD_URL", "ENCAMP_STATE_DIR"):
        environment.pop(name, None)
    subprocess.run([*ENCAMP, "sandbox", "up"], cwd=REPOSITORY, env=environment, check=True, timeout=RUN_SECONDS)
    try:
        layout = Layout.open(root)
        camp = Camp(layout, {**environment, **variables(layout)})
        with pytest.MonkeyPatch.context() as patch:
            for name, value in camp.environment.items():
                patch.setenv(name, value)
            camp.encamp("environment", "up")
            yield camp
    finally:
        for process in camp.started:
            process.kill()
            process.wait()
        subprocess.run([*ENCAMP, "sandbox", "down"], cwd=REPOSITORY, env=environment, check=True, timeout=60)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., str]:
    """Writes a job file of one master and two workers that act as told; gives its path."""

    def write(*acts: str, **training_input: Any) -> str:
        shutil.copytree(Path(__file__).with_name("trainer"), tmp_path / "trainer", dirs_exist_ok=True)
        content = {
            "trainingInput": {
                "scaleTier": "CUSTOM",
                "region": "us-central1",
                "masterType": "n1-standard-4",
                "workerType": "n1-standard-4",
                "workerCount": 2,
                "runtimeVersion": "2.11",
                "pythonVersion": "3.7",
                "pythonModule": "trainer.task",
                "args": [f"--act={act}" for act in acts],
                **training_input,
            },
            "encamp": {"packagePath": "trainer", "managedJobDir": True},
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write


def wait_for(process: subprocess.Popen[str], text: str, *, seconds: float = 90) -> list[str]:
    """The lines that a process says until one holds ``text``."""
    assert process.stdout is not None
    said: list[str] = []
    end = time.monotonic() + seconds
    for line in process.stdout:
        said.append(line)
        if text in line:
            return said
        assert time.monotonic() < end, f"not said within {seconds} s: {text}\n{''.join(said)}"
    raise AssertionError(f"it ended without saying {text!r}:\n{''.join(said)}")


@pytest.fixture
def until_said() -> Callable[..., list[str]]:
    return wait_for
