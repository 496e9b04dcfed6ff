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


class Command:
    """A started ``encamp``; what it says goes to a file, so that waiting for words has an end."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("w") as stream:
            self.process = subprocess.Popen(
                [*ENCAMP, *arguments], cwd=REPOSITORY, env=environment, stdout=stream, stderr=subprocess.STDOUT
            )

    def said(self) -> str:
        return self._output.read_text()

    def until(self, text: str, *, seconds: float = 90) -> str:
        """What it has said when ``text`` is among it."""
        end = time.monotonic() + seconds
        while text not in (said := self.said()):
            assert self.process.poll() is None, f"it ended without saying {text!r}:\n{said}"
            assert time.monotonic() < end, f"not said within {seconds} s: {text!r}\n{said}"
            time.sleep(0.1)
        return said

    def ends(self, code: int, *, seconds: float = RUN_SECONDS) -> str:
        """All that it said, once it has ended with ``code``."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {seconds} s:\n{self.said()}") from None
        assert self.process.returncode == code, self.said()
        return self.said()


@dataclass
class Camp:
    """A running sandbox as users meet it."""

    layout: Layout
    environment: dict[str, str]
    outputs: Path
    started: list[Command] = field(default_factory=list)

    def start(self, *arguments: str) -> Command:
        """Start ``encamp``."""
        command = Command(arguments, self.environment, self.outputs / f"{len(self.started)}.log")
        self.started.append(command)
        return command

    def encamp(self, *arguments: str, code: int = 0) -> str:
        """Run ``encamp`` to its end, which must be ``code``."""
        return self.start(*arguments).ends(code)

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
    started: list[Command] = []
    try:
        layout = Layout.open(root)
        camp = Camp(layout, {**environment, **variables(layout)}, tmp_path_factory.mktemp("said"), started)
        camp.encamp("environment", "up")
        yield camp
    finally:
        for command in started:
            command.process.kill()
            command.process.wait()
        subprocess.run([*ENCAMP, "sandbox", "down"], cwd=REPOSITORY, env=environment, check=True, timeout=60)


@pytest.fixture(autouse=True)
def _inside(camp: Camp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test itself asks the sandbox's cloud."""
    for name, value in variables(camp.layout).items():
        monkeypatch.setenv(name, value)


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
            "encamp": {"packagePath": "trainer", "storage": {"kind": "ENVIRONMENT"}},
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write
