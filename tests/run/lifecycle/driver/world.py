"""A job's world: a fake engine, and Google and Kubernetes on loopback."""

from __future__ import annotations

import json
import os
import signal
import sys
import sysconfig
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.duration import Duration
from encamp.plan.model import (
    ClusterPlan,
    IdentityPlan,
    JobPlan,
    LimitsPlan,
    ReplicaGroupPlan,
    RequestedMachine,
    ResourceAmounts,
    StoragePlan,
)
from encamp.run.history.context import Context
from encamp.run.lifecycle.driver import JobRequest, run_job
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.rest import GoogleClient
    from encamp.run.lifecycle.ending import RunResult

LABELS = {"encamp-job": "j", "encamp-owner": "encamp", "encamp-environment": "sandbox"}


EMAIL = "j@p.iam.gserviceaccount.com"


def job_plan(limits: LimitsPlan | None = None, **storage: Any) -> JobPlan:
    group = ReplicaGroupPlan(
        role=Role.MASTER,
        count=1,
        requested=RequestedMachine("n1-standard-4", None),
        machine_type="n1-standard-4",
        accelerator=None,
        image="image",
        command=None,
        args=None,
        env={},
        task_type="chief",
        package_uris=(),
        node_pool="j-pool",
        resources=ResourceAmounts(1000, 1000),
    )
    return JobPlan(
        job_id="job_1",
        name="j",
        region="r",
        project="p",
        environment="sandbox",
        namespace="n",
        groups=(group,),
        cluster=ClusterPlan({}),
        node_pools=(),
        identity=IdentityPlan(EMAIL, "j", "j", ()),
        storage=replace(StoragePlan("artifacts", "jobs/job_1/", None, "scratch"), **storage),
        limits=limits or LimitsPlan(Duration.of(60), None, 0, 0, 120),
        labels=LABELS,
        training_input={},
    )


@dataclass
class World:
    """A fake engine on PATH, a fake Google, a fake API server, and a driver's context."""

    google: Any
    kubernetes: Any
    folder: Path
    context: Context
    lines: list[str]
    logs: list[str] = field(default_factory=list)

    def script(self, name: str, **data: Any) -> None:
        (self.folder / "engine" / f"{name}.json").write_text(json.dumps(data))

    def run(self, **changes: Any) -> RunResult:
        request = JobRequest(job_plan(**changes), {"jobId": "job_1", "trainingInput": {}}, "sandbox")
        return run_job(request, self.context)

    def trains(self, code: int | None, role: str = "master") -> None:
        """The state of the cluster once ``up`` has returned: one replica that runs, or has ended."""
        state: dict[str, Any] = {"running": {}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
            terminal = {"terminalState": "Completed" if code == 0 else "Failed"}
        else:
            terminal = dict[str, str]()
        labels = {
            **LABELS,
            "jobset.sigs.k8s.io/jobset-name": "j",
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
        }
        status = {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"name": "replica", "state": state}],
        }
        groups = [
            {
                "name": "master",
                "template": {"spec": {"completions": 1, "template": {"spec": {"containers": [{"image": "i"}]}}}},
            }
        ]
        self.kubernetes.put("pods", "j-pod", labels, spec={"nodeName": "node"}, status=status)
        self.kubernetes.put("jobsets", "j", LABELS, spec={"replicatedJobs": groups}, status=terminal)
        self.kubernetes.logs["j-pod"] = [[b"2026-01-01T00:00:01Z hello\n"]]

    @property
    def stacks(self) -> dict[str, Any]:
        return json.loads((self.folder / "engine" / "stacks.json").read_text())

    @property
    def calls(self) -> list[str]:
        return (self.folder / "engine" / "calls").read_text().splitlines()

    def stored(self, name: str) -> Any:
        return json.loads(self.google.objects["artifacts", f"jobs/job_1/{name}"])


@pytest.fixture
def world(google: Any, client: GoogleClient, kubernetes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(google, client, kubernetes, tmp_path, monkeypatch)


def make_world(
    google: Any, client: GoogleClient, kubernetes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    for name in ("bin", "engine"):
        (tmp_path / name).mkdir()
    cli = tmp_path / "bin" / "pulumi"
    cli.write_text(f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__).parents[2] / "engine_cli.py"} "$@"\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ENGINE", str(tmp_path / "engine"))
    monkeypatch.setenv("FAKE_ENGINE_PACKAGES", sysconfig.get_path("platlib"))
    monkeypatch.delenv("ENCAMP_RECORD_URL", raising=False)
    outputs = {
        "kubeconfig": kubernetes.kubeconfig(),
        "cluster": "c",
        "location": "r",
        "project": "p",
        "artifactsBucket": "artifacts",
        "namespace": "n",
    }
    stacks: dict[str, Any] = {"sandbox": {"resources": [], "pending": [], "outputs": outputs}}
    (tmp_path / "engine" / "stacks.json").write_text(json.dumps(stacks))
    google.add_bucket("artifacts")
    lines: list[str] = []
    made = World(google, kubernetes, tmp_path, Context(lines.append, lambda *_: None, tmp_path / "own", client), lines)
    made.context.log = lambda name, line: made.logs.append(f"{name} {line}")
    return made


def record_of(world: World) -> Any:
    records = world.context.records()
    try:
        return records.record("job_1")
    finally:
        records.close()


OWN = {"results_bucket": "own", "job_dir": "gs://own/output", "results_days": 7}


def interrupt_when(*conditions: Callable[[], bool], until: Any) -> threading.Thread:
    def wait() -> None:
        for condition in conditions:
            until(condition, 30)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread
