"""``encamp trials`` and what other verbs say of tuning jobs, as a user calls them, over a cloud of loopback fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import requests
from click.testing import CliRunner

from encamp.cli import trials
from encamp.cli.lines import Lines
from encamp.cli.main import cli
from encamp.cloud import rest
from encamp.errors import UsageError
from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.store.records import Records
from encamp.run.store.states import State
from encamp.run.store.study_results import StudyResults
from encamp.run.store.tables import open_database
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from encamp.run.store.records import Lease

BUCKET = "sandbox-encamp-artifacts"
STUDY = StudyPlan(
    Goal.MAXIMIZE,
    "accuracy",
    (
        ParameterPlan("rate", ParameterType.DOUBLE, 0.0, 1.0),
        ParameterPlan("kind", ParameterType.CATEGORICAL, values=("a", "b\x1b[2J")),
    ),
    Algorithm.ALGORITHM_UNSPECIFIED,
    4,
    2,
    0,
    True,
    None,
    1,
)


def trial(number: int, state: TrialState, value: float | None = None, **more: Any) -> Trial:
    told = (Measurement(10, value, 5.0),) if value is not None else ()
    final = told[-1] if told and state is TrialState.SUCCEEDED else None
    values = {"rate": number / 8, "kind": "a"}
    plain = Trial(number, values, state, told, final, created=1.0, started=100.0, ended=160.0, job_id="tune")
    return replace(plain, **more)


TRIALS = (
    trial(1, TrialState.SUCCEEDED, 0.5),
    trial(2, TrialState.SUCCEEDED, 0.75, stopped_early=True, values={"rate": 0.25, "kind": "b\x1b[2J"}),
    trial(3, TrialState.FAILED, ended=101.0, message="it said \x1b[2J"),
    trial(4, TrialState.RUNNING, 0.125, ended=None),
)


class World:
    """A record of this machine and a bucket, and the command line over both."""

    def __init__(self, google: Any, folder: Path) -> None:
        self.google = google
        self.records = Records(open_database(None, folder))
        self.session = requests.Session()

    def encamp(self, *words: str) -> Result:
        result = CliRunner().invoke(cli, words)
        self.session.close()
        return result

    def living(self, *known: Trial, study: StudyPlan | None = STUDY) -> Lease:
        """A job ``tune`` that this machine's record knows."""
        intent = {**INTENT, "study": study.to_json() if study is not None else None}
        lease = self.records.begin("tune", "tune-abc", intent)
        for state in (State.PREPARING, State.RUNNING):
            self.records.move(lease, state)
        self.tell(lease, *known)
        return lease

    def tell(self, lease: Lease, *known: Trial) -> None:
        for one in known:
            self.records.append(lease, "trial", one.to_json())

    def keep(self, *known: Trial, job_id: str = "tune") -> None:
        """What a driver keeps in the bucket."""
        content = json.dumps(StudyResults(job_id, STUDY, known).to_json()).encode()
        self.google.objects[BUCKET, "jobs/tune/trials.json"] = content

    def end(self, lease: Lease | None = None, **more: Any) -> None:
        """Of a job of this machine the record says it, of another's the bucket."""
        receipt: dict[str, Any] = {
            "version": 2,
            "jobId": "tune",
            "name": "tune-abc",
            "environment": "sandbox",
            "outcome": {"state": "SUCCEEDED", "message": ""},
            "times": {"QUEUED": "2026-05-02T10:00:00.000+00:00", "SUCCEEDED": "2026-05-02T10:02:30.000+00:00"},
            "left": [],
            **more,
        }
        if lease is None:
            self.google.objects[BUCKET, "jobs/tune/receipt.json"] = json.dumps(receipt).encode()
            return
        self.records.move(lease, State.SUCCEEDED)
        self.records.append(lease, "receipt", receipt)
        self.records.append(lease, "gone", {})


INTENT: dict[str, Any] = {
    "job_id": "tune",
    "name": "tune-abc",
    "environment": "sandbox",
    "stack": "job-tune-abc",
    "folder": "",
    "project": "p",
    "cluster": "c",
    "namespace": "n",
    "bucket": BUCKET,
    "prefix": "jobs/tune/",
    "account": None,
    "labels": {},
    "deadline": 1e12,
    "max_running_seconds": 60,
    "max_wait_seconds": None,
    "replicas": ["master-replica-0"],
    "machines": {},
    "specHash": None,
}


@pytest.fixture
def world(committed: None, google: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:  # noqa: ARG001
    made = World(google, tmp_path)
    monkeypatch.setattr(rest, "_default_session", lambda: made.session)
    yield made
    made.records.close()


def test_trials_of_a_living_job_are_a_table_best_first(world: World) -> None:
    world.living(*TRIALS)
    heading, *lines, best = world.encamp("trials", "tune").output.splitlines()
    assert heading.split() == ["TRIAL", "STATE", "accuracy", "STEP", "rate", "kind", "TIME"]
    assert lines[0].split() == ["2", "SUCCEEDED", "early", "0.75", "10", "0.25", r"b\x1b[2J", "60", "s"]
    assert lines[1].split() == ["1", "SUCCEEDED", "0.5", "10", "0.125", "a", "60", "s"]
    assert lines[2].split() == ["3", "FAILED", "-", "-", "0.375", "a", "1", "s", "it", "said", r"\x1b[2J"]
    assert lines[3].split()[:7] == ["4", "RUNNING", "0.125", "10", "0.5", "a", lines[3].split()[6]]
    assert best == r"best: trial 2, accuracy 0.75 at step 10: --rate=0.25 --kind=b\x1b[2J"


def test_json_has_the_whole_study_and_every_measurement(world: World) -> None:
    world.living(*TRIALS)
    found = json.loads(world.encamp("trials", "tune", "--format", "json").output)
    assert (found["best"], found["study"]) == (2, STUDY.to_json())
    assert [one["number"] for one in found["trials"]] == [2, 1, 3, 4]
    assert found["trials"][3]["measurements"] == [[10, 0.125, 5.0]]


def test_trials_that_another_machine_ran_come_from_the_bucket(world: World) -> None:
    world.keep(*TRIALS[:3])
    world.end()
    assert len(world.encamp("trials", "tune").output.splitlines()) == 5
    output = json.loads(world.encamp("describe", "tune", "--format", "json").output)["trainingOutput"]
    assert [one["trialId"] for one in output["trials"]] == ["2", "1", "3"]
    assert output["completedTrialCount"] == "2"


def test_the_record_is_believed_before_what_lies_in_the_bucket(world: World) -> None:
    world.living(trial(1, TrialState.RUNNING, ended=None), TRIALS[1])
    world.keep(TRIALS[0], trial(2, TrialState.RUNNING, 0.1, ended=None))
    found = json.loads(world.encamp("trials", "tune", "--format", "json").output)["trials"]
    assert [(one["number"], one["state"]) for one in found] == [(2, "SUCCEEDED"), (1, "RUNNING")]


def test_trials_of_another_job_are_not_taken(world: World) -> None:
    world.living(TRIALS[0])
    world.keep(*TRIALS[:3], job_id="other")
    assert len(json.loads(world.encamp("trials", "tune", "--format", "json").output)["trials"]) == 1


def test_a_resumed_study_says_whose_trial_each_is(world: World) -> None:
    world.living(replace(TRIALS[0], job_id="before"), TRIALS[1])
    heading, *lines, _ = world.encamp("trials", "tune").output.splitlines()
    assert heading.split()[-1] == "JOB"
    assert [line.split()[-1] for line in lines] == ["tune", "before"]


def test_a_watched_job_shows_each_trial_that_changes_until_it_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = world.living(*TRIALS)
    deeds = iter(
        (
            lambda: world.tell(lease, trial(4, TrialState.RUNNING, 0.875, ended=None)),
            lambda: None,
            lambda: (world.tell(lease, trial(4, TrialState.SUCCEEDED, 0.875)), world.end(lease)),
        )
    )

    def sleep(_: float) -> None:
        next(deeds)()

    monkeypatch.setattr(trials.time, "sleep", sleep)
    lines = [line.split() for line in world.encamp("trials", "tune", "--watch").output.splitlines()]
    assert [line[0] for line in lines] == ["TRIAL", "2", "1", "3", "4", "4", "4", "best:"]
    assert [line[1:3] for line in lines[4:7]] == [["RUNNING", "0.125"], ["RUNNING", "0.875"], ["SUCCEEDED", "0.875"]]


def test_a_watched_job_in_json_is_a_line_for_each_trial(world: World) -> None:
    world.end(world.living(*TRIALS))
    lines = world.encamp("trials", "tune", "--watch", "--format", "json").output.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3, 4]


def test_the_report_is_a_page_of_ones_own(world: World, tmp_path: Path) -> None:
    world.living(*TRIALS)
    page = tmp_path / "page.html"
    run = world.encamp("trials", "tune", "--report", str(page))
    assert "<h1>Tuning of tune</h1>" in page.read_text()
    assert f"report: {page}" in run.stderr
    error = world.encamp("trials", "tune", "--report", str(tmp_path / "no" / "page.html")).exception
    assert isinstance(error, UsageError)
    assert "No such file" in error.what


def test_whoever_follows_a_job_is_not_told_of_every_report_of_a_metric(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.log("trial-1-master-replica-0", 'encamp-metric: {"accuracy": "0.5"}')
    lines.log("trial-1-master-replica-0", "epoch 1")
    assert capsys.readouterr().out == "trial-1-master-replica-0 | epoch 1\n"


def test_a_job_that_tunes_nothing_has_no_trials(world: World) -> None:
    world.living(study=None)
    error = world.encamp("trials", "tune").exception
    assert isinstance(error, UsageError)
    assert error.what.startswith("it has no trials")
    assert "trainingOutput" not in world.encamp("describe", "tune").output


def test_a_list_counts_trials_where_a_job_has_some(world: World) -> None:
    world.living(*TRIALS)
    heading, line = world.encamp("list").output.splitlines()
    assert heading.split()[:4] == ["JOB", "STATE", "TRIALS", "CREATED"]
    assert line.split()[:3] == ["tune", "RUNNING", "3/4"]
    (found,) = json.loads(world.encamp("list", "--format", "json").output)
    assert found["trials"] == {
        "most": 4,
        "ended": 3,
        "succeeded": 2,
        "failed": 1,
        "cancelled": 0,
        "stoppedEarly": 1,
        "best": {"trialId": "2", "metric": 0.75, "step": 10},
    }


def test_an_ended_job_of_another_machine_is_counted_by_its_receipt(world: World) -> None:
    world.end(trials={"most": 4, "ended": 4})
    assert world.encamp("list").output.splitlines()[1].split()[:3] == ["tune", "SUCCEEDED", "4/4"]
    found = json.loads(world.encamp("describe", "tune", "--format", "json").output)["encamp"]
    assert found["report"] == f"gs://{BUCKET}/jobs/tune/tuning.html"
