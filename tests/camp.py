"""A running sandbox with its environment up, and ``encamp`` as a user types it; for every test of whole jobs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage
from encamp.kinds.objects import OBJECTS
from encamp.plan.names import short_name
from encamp_sandbox.environment import trainer_variables, variables
from encamp_sandbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ENCAMP = [sys.executable, "-c", "from encamp.cli.main import main; main()"]
ACTOR = Path(__file__).parent / "main_job" / "trainer"
PROJECT = "sandbox-encamp"
ENVIRONMENT = "sandbox"
BUCKET = f"{PROJECT}-artifacts"
COMMITTED = {path.name.split(".")[1] for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml")}
#: What of the repository a stack reads.
CHECKOUT = ("Pulumi.yaml", "infra", "templates", "tools", "stacks", "examples/digits", "requirements.lock")
#: What Kubernetes itself puts into every namespace.
CLUSTERS_OWN = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
RUN_SECONDS = 300


class Command:
    """A started ``encamp``; what it says goes to a file, so that waiting for words has an end."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], output: Path, checkout: Path) -> None:
        self._output = output
        with output.open("w") as stream:
            self.process = subprocess.Popen(
                [*ENCAMP, *arguments], cwd=checkout, env=environment, stdout=stream, stderr=subprocess.STDOUT
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
    """A running sandbox as users meet it; ``checkout`` holds the stacks and the program."""

    layout: Layout
    environment: dict[str, str]
    outputs: Path
    checkout: Path = REPOSITORY
    started: list[Command] = field(default_factory=list)
    #: Several threads start commands, and each needs a file of its own.
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _evaluator: subprocess.Popen[str] | None = None

    def start(self, *arguments: str, **variables: str) -> Command:
        """Start ``encamp``, with these variables beside the camp's own."""
        command = Command(
            arguments, {**self.environment, **variables}, self.outputs / f"{next(self._numbers)}.log", self.checkout
        )
        self.started.append(command)
        return command

    def encamp(self, *arguments: str, code: int = 0) -> str:
        """Run ``encamp`` to its end, which must be ``code``."""
        return self.start(*arguments).ends(code)

    def pulumi(self, *arguments: str, code: int = 0) -> str:
        """Run the engine by hand in the repository."""
        return self.tool("pulumi", *arguments, "--non-interactive", "--color=never", code=code)

    def stacks(self) -> list[dict[str, Any]]:
        """Every stack; another engine that replaces a state meanwhile spoils a listing of files."""
        for _ in range(10):
            with contextlib.suppress(AssertionError):
                found: list[dict[str, Any]] = json.loads(self.pulumi("stack", "ls", "--json"))
                return found
        raise AssertionError("the engine's stacks cannot be listed")

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Let this process itself ask the sandbox's cloud."""
        for name, value in variables(self.layout).items():
            patch.setenv(name, value)

    def tool(self, *command: str, code: int = 0) -> str:
        ended = subprocess.run(
            command,
            cwd=self.checkout,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout

    def nodes(self) -> list[str]:
        return self.tool("kubectl", "get", "nodes", "-o", "name").split()

    def until(self, true: Callable[[], bool], *, seconds: float = 120) -> None:
        """Wait until something is true, asking twice a second."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"it did not come to be within {seconds} s"
            time.sleep(0.5)

    def accuracy(self, example: str, job_id: str, model: str = "model") -> float:
        """Test accuracy of the model that a job left in its job dir, by the example's own evaluate.py."""
        script = REPOSITORY / "examples" / example / "evaluate.py"
        if self._evaluator is None:
            self._evaluator = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "evaluator.py")],
                env={**os.environ, **trainer_variables(self.layout)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asked, said = self._evaluator.stdin, self._evaluator.stdout
        assert asked is not None
        assert said is not None
        late = threading.Timer(RUN_SECONDS, self._evaluator.kill)
        late.start()
        asked.write(json.dumps([str(script), f"gs://{BUCKET}/jobs/{job_id}/output/{model}"]) + "\n")
        asked.flush()
        found = re.search(r"test accuracy ([0-9.]+)", said.readline())
        late.cancel()
        assert found is not None, f"{script} ended without a word; see what it wrote to stderr"
        return float(found[1])

    def close(self) -> None:
        """End what was started."""
        for command in self.started:
            command.process.kill()
            command.process.wait()
        if self._evaluator is not None:
            self._evaluator.kill()
            self._evaluator.communicate()

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

    def assert_nothing_left(self, job_id: str = "") -> None:
        """What the cloud, the cluster and the engine list is the environment's alone.

        With a job's id only what bears that job's name counts, so that other jobs may run beside it.
        """
        name = short_name(PROJECT, ENVIRONMENT, job_id) if job_id else ""
        kinds = ",".join(kind.plural for kind in OBJECTS)
        objects = self.tool("kubectl", "get", kinds, "-n", "encamp-jobs", "-o", "name").split()
        found = {
            "buckets": [bucket["name"] for bucket in self.storage().buckets(PROJECT) if bucket["name"] != BUCKET],
            "objects": [found for found in objects if found not in CLUSTERS_OWN],
            "stacks": [
                stack["name"]
                for stack in self.stacks()
                if stack["name"] != ENVIRONMENT and (stack["name"] not in COMMITTED or stack.get("resourceCount"))
            ],
        }
        assert [f"{kind}: {one}" for kind, names in found.items() for one in names if name in one] == []


def write_job(folder: Path, *acts: str, **training_input: Any) -> str:
    """Write a job file of one master and two workers that act as told; gives its path."""
    shutil.copytree(ACTOR, folder / "trainer", dirs_exist_ok=True)
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
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def copied_checkout(folder: Path) -> Path:
    """A copy of what a stack reads, in which a test may change stacks and program; gives the folder."""
    for name in CHECKOUT:
        source = REPOSITORY / name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        # Compiled modules come along, so that nothing is compiled anew.
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@contextlib.contextmanager
def opened_camp(
    root: Path,
    outputs: Path,
    *,
    checkout: Path = REPOSITORY,
    idle_seconds: float = 2,
    up: bool = True,
    project: str = PROJECT,
) -> Iterator[Camp]:
    """A sandbox in folder ``root`` with its environment up, taken down at the end.

    Args:
        root: of the sandbox.
        outputs: takes what is said.
        checkout: repository whose stacks and program are used.
        idle_seconds: how long a node stays without a pod.
        up: whether the environment is brought up; else the test does.
        project: what the sandbox stands for.
    """
    environment = {
        **os.environ,
        "ENCAMP_SANDBOX_DIR": str(root),
        "ENCAMP_SANDBOX_IDLE_SECONDS": str(idle_seconds),
        "ENCAMP_SANDBOX_WITH": str(os.getpid()),
        "PYTHONPATH": str(checkout / "infra"),
    }
    for name in ("PULUMI_BACKEND_URL", "ENCAMP_RECORD_URL", "ENCAMP_STATE_DIR"):
        environment.pop(name, None)
    begin = [*ENCAMP, "sandbox", "up", "--project", project]
    subprocess.run(begin, cwd=checkout, env=environment, check=True, timeout=RUN_SECONDS)
    try:
        layout = Layout.open(root)
        with contextlib.closing(Camp(layout, {**environment, **variables(layout)}, outputs, checkout)) as camp:
            if up:
                camp.encamp("environment", "up")
            yield camp
    finally:
        subprocess.run([*ENCAMP, "sandbox", "down"], cwd=checkout, env=environment, check=True, timeout=60)
