"""Clusters and environments that give no answer."""

from __future__ import annotations

import json
import time

import pytest
from tests.run.lifecycle.reap.ground import LOOK_ALIKES, Ground

from encamp.errors import ExitCode
from encamp.retries import SHORT
from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap, worst
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


def _without_cluster(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.cloud.kubernetes._POLICY", SHORT.at_most(1))
    kubeconfig = ground.world.kubernetes.kubeconfig().replace(ground.world.kubernetes.url, "http://127.0.0.1:9")
    stacks = ground.world.stacks
    stacks["sandbox"]["outputs"]["kubeconfig"] = kubeconfig
    (ground.world.folder / "engine" / "stacks.json").write_text(json.dumps(stacks))
    ground.world.context._environments.clear()


def test_a_cluster_that_gives_no_answer_hides_nothing_that_costs_money(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.record(deadline=time.time() - 7200)
    ground.furnish()
    ground.stack("job-j", resources=["bucket", "in-cluster"])
    ground.world.script("destroy", unreachable=True)
    _without_cluster(ground, monkeypatch)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    finding = ground.reap(job="job_1")
    assert (finding.verdict, "no answer" in finding.why or "no answer" in str(finding.error)) == (Verdict.FAILED, True)
    assert (ground.listed(), ground.found().torn_down) == (LOOK_ALIKES, False)
    # Once Google lists the cluster no more, what was in it is gone too.
    ground.google.clusters.clear()
    assert ground.reap(job="j").verdict is Verdict.ENDED
    assert (ground.found().state, list(ground.world.stacks)) == (State.CANCELLED, ["sandbox"])


def test_a_job_that_cannot_be_judged_is_left_and_said(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.record()
    ground.furnish()
    _without_cluster(ground, monkeypatch)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    finding = ground.reap(job="job_1", tell=True)
    assert (finding.verdict, ground.found().outcome) == (Verdict.FAILED, None)
    told = [one["jsonPayload"] for one in ground.google.told]
    assert [(one["event"], one.get("why"), one.get("troubles")) for one in told] == [
        ("not-ended", finding.why, None),
        ("reaped", None, 1),
    ]
    error = worst([finding])
    assert error is not None
    assert error.exit_code == ExitCode.INFRASTRUCTURE_FAILED
    assert "scratch" in ground.google.buckets


def test_an_environment_that_is_gone_still_has_its_jobs_ended(ground: Ground) -> None:
    ground.record()
    ground.furnish()
    del ground.google.buckets["artifacts"]
    (ground.world.folder / "engine" / "stacks.json").write_text("{}")
    ground.world.context._environments.clear()
    (finding,) = reap(ground.world.context, "sandbox", ReapOptions(job="job_1"))
    assert (finding.verdict, ground.found().outcome.message) == (Verdict.ENDED, "its cluster is gone")
    assert ground.listed() == LOOK_ALIKES[1:]
    assert ground.found().receipt["outcome"]["state"] == "FAILED"
