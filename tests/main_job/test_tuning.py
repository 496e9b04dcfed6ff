"""Studies on the real engine and control plane: what becomes of them when their driver dies, and when trials fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

TRAINER = Path(__file__).parent / "tuned" / "trainer"
PARAMETERS = [
    {"parameterName": "x", "type": "DOUBLE", "minValue": 0.0, "maxValue": 1.0},
    {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["plain $HOME", "'; exit 1; '"]},
]


@pytest.fixture
def study(job: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Writes the job file of a study of trials of one master and one worker; gives its path."""

    def write(*args: str, **hyperparameters: Any) -> str:
        searched = {"hyperparameterMetricTag": "accuracy", "params": PARAMETERS, **hyperparameters}
        path = job(args=list(args), workerCount=1, hyperparameters=searched)
        shutil.copytree(TRAINER, tmp_path / "trainer", dirs_exist_ok=True)
        return path

    return write


def _trials(camp: Camp, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(camp.read(job_id, "trials.json"))["trials"]
    return found


def test_a_study_survives_its_driver_and_another_goes_on_from_it(camp: Camp, study: Callable[..., str]) -> None:
    """Killed while two trials have ended and two run, whose ends nobody sees."""
    # Long enough for the worker of each trial to start on a busy machine: a replica that never ran has no log.
    path = study("--seconds=6", maxTrials=6, maxParallelTrials=2)
    command = camp.start("run", "-v", path, "--job-id", "tuned")
    command.until("trial 4 begins", seconds=240)
    command.until("trial-4-master-replica-0 runs")
    command.process.kill()
    command.process.wait()
    listed = ["kubectl", "get", "jobsets", "-n", "encamp-jobs", "-o", "jsonpath={.items[*].status.terminalState}"]
    camp.until(lambda: camp.tool(*listed).split().count("Completed") >= 2)
    said = camp.encamp("reap", "--wait")
    assert "tuned: brought to its end" in said
    trials = _trials(camp, "tuned")
    assert [trial["number"] for trial in trials] == [1, 2, 3, 4, 5, 6]
    assert {trial["state"] for trial in trials} == {"SUCCEEDED"}
    for trial in trials:
        assert trial["final"][1] == pytest.approx(3 * trial["values"]["x"])
        log = camp.read("tuned", f"logs/trial-{trial['number']}-master-replica-0.log")
        assert log.count(f"chief of trial {trial['number']} is here with {trial['values']['kind']}") == 1
    receipt = camp.receipt("tuned")
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    manifest = json.loads(camp.read("tuned", "logs/manifest.json"))
    assert [entry for entry in manifest["replicas"] if not entry["complete"]] == []
    assert receipt["logs"] == {"complete": True, "replicas": 12}
    assert receipt["trials"]["succeeded"] == 6
    camp.assert_nothing_left("tuned")

    # Trials 7 and 8 fail, which ends the job, and trial 9 with it.
    acts = ("--act=7=3:1", "--act=8=3:1", "--act=9=0:600")
    path = study(*acts, maxTrials=9, maxParallelTrials=3, maxFailedTrials=2, resumePreviousJobId="tuned")
    said = camp.encamp("run", path, "--job-id", "tuned_on", code=1)
    assert "the study goes on from 6 trials of job tuned" in said
    assert "2 trials failed, and maxFailedTrials is 2: trial " in said
    states = {trial["number"]: trial["state"] for trial in _trials(camp, "tuned_on")}
    assert {number for number, state in states.items() if state == "FAILED"} == {7, 8}
    assert states[9] == "CANCELLED"
    assert {number for number, state in states.items() if state == "SUCCEEDED"} == {1, 2, 3, 4, 5, 6}
    camp.assert_nothing_left("tuned_on")


def test_a_cancelled_study_stops_its_trials_and_keeps_what_they_said(camp: Camp, study: Callable[..., str]) -> None:
    path = study("--act=2=0:600", "--seconds=2", maxTrials=2, maxParallelTrials=2)
    command = camp.start("run", path, "--job-id", "tune_cancelled")
    command.until("trial 1 is SUCCEEDED", seconds=240)
    camp.encamp("cancel", "tune_cancelled")
    command.ends(5)
    assert [trial["state"] for trial in _trials(camp, "tune_cancelled")] == ["SUCCEEDED", "CANCELLED"]
    assert "chief of trial 2 is here" in camp.read("tune_cancelled", "logs/trial-2-master-replica-0.log")
    camp.assert_nothing_left("tune_cancelled")
