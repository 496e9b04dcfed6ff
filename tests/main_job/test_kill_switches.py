"""What ends a job that nobody drives: its machines' run duration, the cluster's deadline, and the reaper's label.

Each switch is alone with a job of its own, brought up by the engine by hand, while the two others are days away. The
durations of seconds come by a transformation, as any program may have one.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.plan.names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

#: Of the machines' run duration and of the cluster's deadline: the replicas have to run before.
SECONDS = 20
AGES = str(7 * 86_400)
PROGRAM = """
import time
import pulumi
from encamp.program import main

given = pulumi.Config("trial")
pools = []

def shorten(args):
    if args.type_ == "gcp:container/nodePool:NodePool":
        pools.append(args.resource)
        if given.get("machines"):
            args.props["node_config"]["max_run_duration"] = given.get("machines")
    if args.type_ == "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet":
        for group in args.props["spec"]["replicatedJobs"]:
            job = group["template"]["spec"]
            if given.get("cluster"):
                job["activeDeadlineSeconds"] = int(given.get("cluster"))
            seconds = int(given.require("replicas"))
            # Not before there are machines to be had, however long bringing up takes.
            until = pools[0].id.apply(lambda _: str(int(time.time()) + seconds))
            job["template"]["metadata"]["labels"]["encamp-deadline"] = until
    return pulumi.ResourceTransformationResult(args.props, args.opts)

pulumi.runtime.register_stack_transformation(shorten)
main()
"""


@dataclass
class Killed:
    """A job by hand."""

    camp: Camp
    folder: Path
    job_id: str

    @property
    def name(self) -> str:
        return short_name("sandbox-encamp", "sandbox", self.job_id)

    def up(self, job: dict[str, Any], settings: dict[str, str]) -> None:
        """Write a workspace whose program is the project's with other durations, and bring its stack up."""
        (self.folder / "program").mkdir(parents=True)
        (self.folder / "program" / "__main__.py").write_text(PROGRAM)
        (self.folder / "Pulumi.yaml").write_text("name: encamp\nruntime: python\nmain: program\n")
        self.camp.pulumi("-C", str(self.folder), "stack", "init", self.job_id)
        file = self.folder / f"Pulumi.{self.job_id}.yaml"
        config = {
            "encamp:environmentStack": "sandbox",
            "encamp:job": {**job, "jobId": self.job_id},
            "encamp:jobFolder": str(self.folder.parent),
            **settings,
        }
        file.write_text(yaml.safe_dump({**(yaml.safe_load(file.read_text()) or {}), "config": config}))
        self.camp.pulumi("-C", str(self.folder), "up", "-s", self.job_id, "--yes", "--skip-preview")

    def nodes(self) -> list[str]:
        return self._names("nodes", f"encamp-job={self.name}")

    def phases(self) -> list[str]:
        return self._asked("pods", f"encamp-job={self.name}", "{.items[*].status.phase}")

    def terminal(self) -> str:
        return "".join(self._asked("jobsets", f"encamp-job={self.name}", "{.items[*].status.terminalState}"))

    def _names(self, kind: str, label: str) -> list[str]:
        return self._asked(kind, label, "{.items[*].metadata.name}")

    def _asked(self, kind: str, label: str, path: str) -> list[str]:
        asked = ("kubectl", "get", kind, "-n", "encamp-jobs", "-l", label, "-o", f"jsonpath={path}")
        return self.camp.tool(*asked).split()

    def ended(self) -> dict[str, Any]:
        outcome: dict[str, Any] = self.camp.receipt(self.job_id)["outcome"]
        return outcome


def test_each_switch_ends_its_job_alone(camp: Camp, job: Callable[..., str], tmp_path: Path) -> None:
    given = yaml.safe_load(Path(job("chief-0=sleep")).read_text())
    for key in ("workerType", "workerCount"):
        del given["trainingInput"][key]
    deadline = int(time.time()) + 2 * SECONDS
    settings = {
        # A replica whose machine has ended finds that it may not go on; nothing else looks at what it is told.
        "by_machines": {"trial:machines": f"{SECONDS}s", "trial:replicas": str(SECONDS)},
        "by_cluster": {"trial:cluster": str(SECONDS), "trial:replicas": AGES},
        "by_label": {"encamp:deadline": str(deadline), "trial:replicas": AGES},
    }
    by_machines, by_cluster, by_label = jobs = [Killed(camp, tmp_path / name, name) for name in settings]
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(one.up, given, settings[one.job_id]) for one in jobs]
        for one in started:
            one.result()

    camp.until(lambda: by_machines.terminal() == "Failed" and by_machines.nodes() == [])
    camp.until(lambda: by_cluster.terminal() == "Failed" and by_cluster.nodes() == [])
    camp.until(lambda: by_label.phases() == ["Running"] and time.time() > deadline)
    assert len(by_label.nodes()) == 1, "nothing but a reaper ends it"
    assert by_machines.nodes() == [], "no machine comes back"

    camp.encamp("reap")
    camp.until(lambda: by_label.nodes() == [])
    said = {one.job_id: one.ended() for one in jobs}
    assert {name: outcome["state"] for name, outcome in said.items()} == dict.fromkeys(settings, "CANCELLED")
    assert "its deadline had passed" in said["by_machines"]["message"]
    assert f"the cluster ended it {SECONDS} s after its start" in said["by_cluster"]["message"]
    assert "its deadline has passed" in said["by_label"]["message"]
    for name in ("by_machines", "by_cluster"):
        log = camp.read(name, "logs/master-replica-0.log")
        assert "chief-0 is here and will sleep" in log, f"{name} has trained"
    for name in settings:
        camp.assert_nothing_left(name)
