"""Drivers that no terminal holds, as real processes over a fake engine, a fake Google and a fake API server."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from encamp.cli.main import cli
from encamp.plan.names import short_name
from encamp.run.store.records import Records
from encamp.run.store.states import State
from encamp.run.store.tables import open_database
from encamp_sandbox.environment import variables
from encamp_sandbox.layout import PROJECT, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

pytestmark = pytest.mark.slow

INFRA = Path(__file__).resolve().parents[3] / "infra"
BUCKET = "sandbox-encamp-artifacts"
JOB = "job_1"
NAME = short_name(PROJECT, "sandbox", JOB)
ENDS = 60.0


@dataclass
class World:
    """A folder that the command takes for a running sandbox, and the command itself."""

    google: Any
    kubernetes: Any
    layout: Layout
    folder: Path
    until: Any
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def file(self) -> str:
        return str(self.folder / "job.yaml")

    def script(self, name: str, **data: Any) -> None:
        (self.folder / "engine" / f"{name}.json").write_text(json.dumps(data))

    def call(self, *words: str) -> Result:
        """Call the command in this process."""
        return CliRunner().invoke(cli, words, catch_exceptions=True)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Call the command as a process; what it says is in ``said``."""
        with (self.folder / f"{len(self.started)}.said").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "encamp.cli", *words], stdout=output, stderr=subprocess.STDOUT
            )
        self.started.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"{self.started.index(process)}.said").read_text()

    def says(self, process: subprocess.Popen[bytes], text: str) -> None:
        assert self.until(lambda: text in self.said(process), ENDS), self.said(process)

    def ends(self, process: subprocess.Popen[bytes], code: int) -> str:
        assert process.wait(ENDS) == code, self.said(process)
        return self.said(process)

    def records(self, ahead: float = 0.0) -> Records:
        """The record, by a clock that is ``ahead`` seconds fast."""
        return Records(open_database(None, self.layout.root / "state"), lambda: time.time() + ahead)

    def record(self) -> Any:
        records = self.records()
        try:
            return records.record(JOB)
        finally:
            records.close()

    def held(self) -> psutil.Process | None:
        """Who holds the job, if anybody does."""
        records = self.records()
        try:
            held = records.holder_of(JOB)
        finally:
            records.close()
        return None if held is None else psutil.Process(int(held.split()[1]))

    def driver(self) -> psutil.Process:
        assert self.until(self.held, ENDS)
        found = self.held()
        assert found is not None
        return found

    def enters(self, state: State) -> None:
        assert self.until(lambda: (found := self.record()) is not None and state in found.times, ENDS)

    def trains(self, terminal: str | None) -> None:
        """The state of the cluster: one replica that runs, or has ended so."""
        ended = {"terminated": {"exitCode": 0 if terminal == "Completed" else 7, "finishedAt": "2026-01-01T00:01:00Z"}}
        labels = {
            "encamp-job": NAME,
            "jobset.sigs.k8s.io/jobset-name": NAME,
            "jobset.sigs.k8s.io/replicatedjob-name": "master",
            "batch.kubernetes.io/job-completion-index": "0",
        }
        container = {"name": "replica", "state": ended if terminal else {"running": {}}}
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [container]}
        self.kubernetes.put("pods", f"{NAME}-pod", labels, spec={"nodeName": "node"}, status=status)
        told = {"terminalState": terminal} if terminal else {}
        self.kubernetes.put("jobsets", NAME, {"encamp-job": NAME}, spec={"replicatedJobs": []}, status=told)
        self.kubernetes.logs[f"{NAME}-pod"] = [[b"2026-01-01T00:00:01Z hello\n"]]

    @property
    def stacks(self) -> list[str]:
        return list(json.loads((self.folder / "engine" / "stacks.json").read_text()))


@pytest.fixture(scope="module")
def key() -> str:
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind = serialization.PrivateFormat.PKCS8
    return made.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


@pytest.fixture
def world(  # noqa: PLR0917 - fixtures are asked for by name
    google: Any, kubernetes: Any, key: str, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    layout = _camp(google, key, tmp_path / "sandbox")
    engine = tmp_path / "engine"
    engine.mkdir()
    outputs = {
        "kubeconfig": kubernetes.kubeconfig(),
        "cluster": "c",
        "location": "us-central1",
        "project": PROJECT,
        "artifactsBucket": BUCKET,
        "namespace": "encamp-jobs",
    }
    (engine / "stacks.json").write_text(json.dumps({"sandbox": {"resources": [], "pending": [], "outputs": outputs}}))
    job = {
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "region": "us-central1",
            "masterType": "n1-standard-4",
            "masterConfig": {"imageUri": "gcr.io/p/i"},
        }
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    for name in ("ENCAMP_RECORD_URL", "ENCAMP_ENVIRONMENT", "PULUMI_BACKEND_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENCAMP_SANDBOX_DIR", str(layout.root))
    for name, value in variables(layout).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(layout.root / "state"))
    monkeypatch.setenv("FAKE_ENGINE", str(engine))
    monkeypatch.setenv("PYTHONPATH", str(INFRA))
    made = World(google, kubernetes, layout, tmp_path, until)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
    left = made.held()
    if left is not None and left.pid != os.getpid():
        left.kill()


def _camp(google: Any, key: str, root: Path) -> Layout:
    """A sandbox's folder whose front is the fake Google."""
    layout = Layout.create(root)
    port = int(google.url.rpartition(":")[2])
    config = layout.config
    layout.save(dataclasses.replace(config, ports=dataclasses.replace(config.ports, front=port)))
    cli_path = layout.bin / "pulumi"
    cli = Path(__file__).parents[1] / "engine_cli.py"
    cli_path.write_text(f'#!/bin/sh\nexec {sys.executable} -S {cli} "$@"\n')
    cli_path.chmod(0o755)
    account = {"type": "service_account", "client_email": "me@p.iam.gserviceaccount.com", "private_key": key}
    layout.google_credentials.write_text(json.dumps({**account, "token_uri": f"{google.url}/token"}))
    google.say("POST /token", 200, {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})

    def answer(request: Any) -> Any:
        return google.answer(_renamed(request))

    google.troubles.append((" /(cloudresourcemanager|compute/compute)/", answer))
    google.add_bucket(BUCKET)
    return layout


def _renamed(request: Any) -> Any:
    """A request by the path at which the sandbox's front has that API, by the fake's."""
    path = request.path.replace("/cloudresourcemanager/", "/crm/").replace("/compute/compute/", "/compute/")
    return dataclasses.replace(request, path=path)


def _later(*steps: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        for step in steps:
            step()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_job_outlives_whoever_submitted_followed_and_drove_it(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.trains(None)
    submitted = world.call("submit", world.file, "--job-id", JOB)
    assert (submitted.exit_code, submitted.stdout) == (0, f"{JOB}\n")
    for verb in ("attach", "logs", "cancel"):
        assert f"encamp {verb} {JOB}" in submitted.stderr
    driver = world.driver()
    assert os.getsid(driver.pid) == driver.pid
    again = world.call("run", "--detach", world.file, "--job-id", JOB)
    assert again.exit_code == 2
    assert f"this job is running: process {driver.pid} on" in capfd.readouterr().err
    driver.send_signal(signal.SIGHUP)
    follower = world.start("attach", JOB)
    world.says(follower, "master-replica-0 | hello")
    world.says(follower, "the job is RUNNING")
    follower.send_signal(signal.SIGINT)
    assert "the job goes on" in world.ends(follower, 130)
    driver.send_signal(signal.SIGTERM)
    driver.wait(ENDS)
    assert f"job-{NAME}" in world.stacks
    assert world.record().outcome is None
    completes = _later(world.driver, lambda: world.trains("Completed"))
    attached = world.call("attach", JOB)
    completes.join()
    assert attached.exit_code == 0, attached.output
    for words in (
        "SIGTERM: this driver ends",
        "nobody drives this job",
        "| hello",
        "SUCCEEDED",
        "kept         gs://",
        "NO OUTPUT",
    ):
        assert words in attached.stdout
    assert attached.stdout.count("| hello") == 1
    assert world.stacks == ["sandbox"]
    ended = world.call("attach", JOB)
    assert (ended.exit_code, "outcome" in ended.stdout) == (0, True)
    assert f"logs         gs://{BUCKET}/jobs/{JOB}/logs/" in ended.stdout
    refused = world.call("cancel", JOB)
    assert (refused.exit_code, "has ended: it is SUCCEEDED since" in refused.stderr) == (2, True)


def test_a_job_is_cancelled_while_it_is_brought_up_and_once(world: World) -> None:
    held = world.folder / "engine" / "held"
    held.touch()
    world.script("up", resources=["bucket"], hang=True)
    assert world.call("submit", world.file, "--job-id", JOB).exit_code == 0
    assert world.until((world.folder / "engine" / "hanging").exists, ENDS)
    follower = world.start("attach", JOB)
    world.says(follower, "bringing up stack")
    first = world.call("cancel", JOB, "--no-wait")
    assert (first.exit_code, f"{JOB} is being cancelled\n" in first.stderr) == (0, True)
    asked = world.record().cancel.at
    time.sleep(1.1)
    second = world.start("cancel", JOB, "jab_1")
    world.says(second, f"is being cancelled since {asked:%Y-%m-%d %H:%M:%S}")
    held.unlink()
    said = world.ends(second, 2)
    assert f"did you mean {JOB}?" in said
    assert f"{JOB} is CANCELLED\n" in said
    assert "the job is stopped" in world.ends(follower, 5)
    assert world.record().cancel.at == asked
    assert world.stacks == ["sandbox"]


def test_a_driver_that_was_overtaken_while_it_stood_still_takes_nothing_down(world: World) -> None:
    world.trains(None)
    driver = world.start("run", world.file, "--job-id", JOB)
    world.enters(State.RUNNING)
    driver.send_signal(signal.SIGSTOP)
    try:
        records = world.records(ahead=3600)
        lease = records.adopt(JOB, NAME, {})
        world.trains("Completed")
    finally:
        driver.send_signal(signal.SIGCONT)
    said = world.ends(driver, 3)
    assert f"process {os.getpid()} on" in said
    assert "has adopted this job; this driver stops and deletes nothing" in said
    assert f"job-{NAME}" in world.stacks
    assert [entry.kind for entry in world.record().entries if entry.kind in {"outcome", "sealed", "gone"}] == []
    assert records.holds(lease)
    records.close()


def test_of_two_submits_at_once_one_is_accepted_and_a_wrong_one_says_why(world: World) -> None:
    world.trains("Completed")
    both = [world.start("submit", world.file, "--job-id", JOB) for _ in range(2)]
    assert sorted(process.wait(ENDS) for process in both) == [0, 2]
    (refused,) = (process for process in both if process.returncode)
    assert JOB in world.said(refused)
    assert world.until(lambda: world.record().torn_down, ENDS)
    wrong = world.start("submit", world.file, "--master-machine-type", "n1-standard-5")
    assert "n1-standard-5" in world.ends(wrong, 2)
