"""A repository of one's own: the wheel in a clean environment, a project by ``encamp init``, and whole jobs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.jobs, pytest.mark.sandbox]

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = "jobs/example/job.yaml"
SECONDS = 600
#: What would lead a command of the clean environment back to the checkout, or to another sandbox.
FOREIGN = ("PYTHON", "VIRTUAL_ENV", "ENCAMP_", "PULUMI_", "KUBE", "GOOGLE_", "CLOUDSDK_")
#: A sandbox that a test starts ends with this process.
KEPT = "ENCAMP_SANDBOX_WITH"


@dataclass(frozen=True)
class Own:
    """The folder of the project, and an environment of its own in which encamp is installed."""

    folder: Path
    tool: Path
    wheel: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if name == KEPT or not name.startswith(FOREIGN)}
        return {**kept, "PATH": f"{self.tool / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *words: str, code: int = 0, below: str = ".", variables: Mapping[str, str] | None = None) -> str:
        ended = subprocess.run(
            words,
            cwd=self.folder / below,
            env={**self.environment, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == code, ended.stdout
        return ended.stdout

    def encamp(self, *words: str, code: int = 0, below: str = ".") -> str:
        return self.run("encamp", *words, code=code, below=below)

    def install(self, extras: str = "") -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--no-compile", f"encamp{extras} @ {self.wheel.as_uri()}")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    root = tmp_path_factory.mktemp("own")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "built")]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = (root / "built").glob("encamp-*.whl")
    made = Own(root / "camp", root / "tool", wheel)
    made.folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(made.tool)], check=True)
    made.install()
    yield made
    made.encamp("sandbox", "down")


def test_from_an_empty_folder_to_a_job_and_back(own: Own) -> None:
    # The base alone: no sandbox, and the line that brings it.
    assert "pip install 'encamp[sandbox]'" in own.encamp("sandbox", "up", code=2)
    assert "pip install 'encamp[serve]'" in own.encamp("serve", code=2)
    assert not list(own.folder.glob("Pulumi*"))
    own.install("[sandbox,serve]")
    own.encamp("init", ".")
    assert "\nencamp[sandbox,serve]==" in (own.folder / "requirements.txt").read_text()
    own.run("make", "setup", variables={"PIP_FIND_LINKS": str(own.wheel.parent)})
    git = ("git", "-c", "user.name=tester", "-c", "user.email=tester@example.com")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), ("commit", "--quiet", "-m", "first")):
        own.run(*git, *words)

    # Without a cloud.
    assert "valid" in own.encamp("validate", "job.yaml", below="jobs/example")
    assert "python:3.11-slim" in own.encamp("plan", JOB)
    assert "line found: 3.00 x + 2.00" in own.encamp("local", "train", JOB)

    # The sandbox and its environment, in this project's own folder.
    assert f"in {own.folder / '.encamp' / 'sandbox'}" in own.encamp("sandbox", "up")
    assert "environment sandbox is up" in own.encamp("environment", "up")
    said = own.encamp("run", JOB, "--job-id", "first", below="stacks/..")
    assert "the job is SUCCEEDED" in said
    assert re.search(r"^left +nothing$", said, re.MULTILINE)
    own.encamp("results", "first", "kept")
    assert json.loads((own.folder / "kept" / "output" / "model.json").read_text())["slope"] == pytest.approx(3, abs=0.1)

    # A committed job's stack by the engine itself, and what ends it. Programs run in the project's environment.
    values = json.loads(own.encamp("sandbox", "env", "--format", "json"))
    values["PATH"] = f"{values['PATH'].partition(os.pathsep)[0]}{os.pathsep}{own.environment['PATH']}"
    up = ("pulumi", "up", "--stack", "example", "--yes", "--non-interactive", "--color=never")
    assert re.search(r"\+ \d+ created", own.run(*up, variables=values))
    assert str(own.folder / ".venv" / "bin" / "python") in own.run("pulumi", "about", variables=values)
    assert "example_by_hand: brought to its end" in own.encamp("reap", "--wait", below="jobs")
    listed = own.encamp("list")
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        ["example_by_hand", "SUCCEEDED"],
        ["first", "SUCCEEDED"],
    ]

    # What CI says of the stacks, and the jobs API.
    assert "agrees with the cloud" in own.encamp("ci", "drift")
    stack = own.folder / "stacks" / "Pulumi.example.yaml"
    stack.write_text(stack.read_text().replace("example_by_hand", "example_again"))
    comment = own.encamp("ci", "preview", "--base", "main", "-s", "sandbox")
    assert "1 stack touched" in comment
    assert "Touched by `stacks/Pulumi.example.yaml`" in comment
    assert served(own) == 401
    assert own.run("git", "status", "--porcelain").split() == ["M", "stacks/Pulumi.example.yaml", "??", "kept/"]


def served(own: Own) -> int:
    """What the jobs API answers to a caller without credentials."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["encamp", "serve", "--port", str(port)], cwd=own.folder, env=own.environment, stdout=subprocess.DEVNULL
    )
    try:
        return answered(f"http://127.0.0.1:{port}/v1/projects/sandbox-encamp/jobs", server)
    finally:
        server.terminate()
        server.wait(60)


def answered(url: str, server: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - a server of this test's
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.3)
