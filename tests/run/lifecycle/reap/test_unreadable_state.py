"""States that nobody can read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from encamp.plan.summary import SUMMARY_ANNOTATION, job_summary
from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap, worst
from encamp.run.store.states import State

if TYPE_CHECKING:
    from pathlib import Path


from tests.run.lifecycle.reap.ground import LATER, LOOK_ALIKES, Ground

pytestmark = pytest.mark.slow


@pytest.fixture
def states(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a backend of files keeps states."""
    backend: Path = ground.world.folder / "engine" / "backend"
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{backend}")
    folder = backend / ".pulumi" / "stacks" / "encamp"
    folder.mkdir(parents=True)
    return folder


def test_a_state_that_nobody_can_read_is_set_aside_and_its_job_comes_to_its_end(ground: Ground, states: Path) -> None:
    ground.record()
    ground.furnish()
    ground.stack("job-j", resources=["bucket"])
    ground.stack("job-stray")
    ground.world.trains(0)
    for name in ("job-j", "job-stray"):
        (states / f"{name}.json").write_text("garbage")
    would = {one.job: one for one in reap(ground.world.context, "sandbox", ReapOptions(dry_run=True))}
    assert (would["job_1"].verdict, would["stack job-stray"].verdict) == (Verdict.WOULD_END, Verdict.WOULD_SET_ASIDE)
    assert str(states / "job-j.json") in would["job_1"].resources[0]
    assert len(list(states.iterdir())) == 2
    findings = {one.job: one for one in reap(ground.world.context, "sandbox")}
    assert (findings["job_1"].verdict, findings["stack job-stray"].verdict) == (Verdict.ENDED, Verdict.SET_ASIDE)
    assert worst(findings.values()) is None
    assert (ground.found().state, ground.found().torn_down, ground.listed()) == (State.SUCCEEDED, True, LOOK_ALIKES)
    aside = states.parents[1] / "unreadable" / "encamp"
    assert sorted(one.name.partition(".")[0] for one in aside.iterdir()) == ["job-j", "job-stray"]
    assert {one.read_text() for one in aside.iterdir()} == {"garbage"}
    said = [line for line in ground.world.lines if "cannot be read" in line]
    assert len(said) == 1
    assert str(states / "job-j.json") in said[0]
    assert f"it is kept as {aside}" in said[0]
    assert f"it is kept as {aside}" in findings["stack job-stray"].why


def test_an_unreadable_state_of_a_job_that_only_the_cloud_tells_of(ground: Ground, states: Path) -> None:
    ground.furnish()
    ground.stack("job-j")
    (states / "job-j.json").write_text("garbage")
    ground.world.trains(0)
    job_set = ground.world.kubernetes.objects["jobsets", "j"]
    job_set["metadata"]["labels"] = {**ground.labels, "encamp-deadline": str(int(LATER))}
    job_set["metadata"]["annotations"] = {SUMMARY_ANNOTATION: json.dumps(job_summary(ground.plan).to_json())}
    assert ground.reap().verdict is Verdict.ENDED
    assert (ground.found().state, ground.listed(), list(states.iterdir())) == (State.SUCCEEDED, LOOK_ALIKES, [])


def test_an_unreadable_state_of_the_environment_is_named_and_stays(ground: Ground, states: Path) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(0)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    (states / "sandbox.json").write_text("garbage")
    ground.world.context._environments.clear()
    reap(ground.world.context, "sandbox")
    assert [one.name for one in states.iterdir()] == ["sandbox.json"]
    assert any(str(states / "sandbox.json") in line for line in ground.world.lines)
