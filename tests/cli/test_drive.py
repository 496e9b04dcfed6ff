"""``encamp submit --in-cluster`` and ``encamp drive``: who hands a job over, which pod begins it, which goes on."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from encamp.cli.drive import command
from encamp.cli.submit import command as submit
from encamp.errors import UsageError
from encamp.run.lifecycle.ending import RunResult
from encamp.run.store.actor import Actor
from encamp.run.store.states import Outcome, State
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "job.yaml"
WORDS = [str(DIGITS), "--job-id", "digits_1", "--environment", "prod"]


def _always(answer: Any) -> Callable[..., Any]:
    def give(*_: Any) -> Any:
        return answer

    return give


class Pod:
    """What a pod finds: a record that knows the job or does not, and what it does then."""

    def __init__(self) -> None:
        self.record: Any = None
        self.begun: list[dict[str, Any]] = []
        self.gone_on: list[str] = []

    def begin(self, _: Any, job_id: str | None, environment: str, **how: Any) -> None:
        self.begun.append({"job": job_id, "environment": environment, **how})

    def go_on(self, _: Any, __: Any, environment: str, job_id: str) -> None:
        self.gone_on.append(f"{job_id} in {environment}")

    @contextmanager
    def looking(self, _: str) -> Iterator[Any]:
        records = SimpleNamespace(record=_always(self.record))
        yield SimpleNamespace(records=records, context=None, catalogue=SimpleNamespace(job=_always(None)))


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod()
    monkeypatch.setattr("encamp.jobs.target.enter", _always(SimpleNamespace(project="p")))
    monkeypatch.setattr("encamp.run.lifecycle.remote.require_remote", _always(None))
    monkeypatch.setattr("encamp.cli.known.looking", made.looking)
    monkeypatch.setattr("encamp.cli.run.drive", made.begin)
    monkeypatch.setattr("encamp.run.lifecycle.in_cluster.go_on", made.go_on)
    ended = RunResult("digits_1", Outcome(State.FAILED, "worker-0 exited with 7"), None, (), "gs://b/jobs/digits_1/")
    monkeypatch.setattr("encamp.run.lifecycle.ended.result_of", _always(ended))
    return made


def test_the_first_pod_begins_the_job_for_who_handed_it_over(pod: Pod) -> None:
    # What somebody says of their account counts for nothing; what the API server has compared does.
    said = json.dumps({"user": "ana", "host": "laptop", "account": "victim@example.com"})
    told = {"ENCAMP_STARTED_BY": said, "ENCAMP_STARTED_BY_ACCOUNT": "ana@example.com"}
    ran = CliRunner().invoke(command, WORDS, env=told, catch_exceptions=False)
    assert ran.exit_code == 0
    (begun,) = pod.begun
    assert (begun["job"], begun["environment"], begun["detached"]) == ("digits_1", "prod", True)
    assert begun["started_by"] == Actor("ana", "laptop", "ana@example.com")


def test_a_pod_that_is_told_no_account_knows_none(pod: Pod) -> None:
    said = json.dumps({"user": "ana", "host": "laptop", "account": "victim@example.com"})
    ran = CliRunner().invoke(command, WORDS, env={"ENCAMP_STARTED_BY": said}, catch_exceptions=False)
    assert ran.exit_code == 0
    assert pod.begun[0]["started_by"] == Actor("ana", "laptop")
    bad = CliRunner().invoke(command, WORDS, env={"ENCAMP_STARTED_BY": "ana"})
    assert isinstance(bad.exception, UsageError)


def test_a_later_pod_goes_on_and_ends_as_the_job_did(pod: Pod) -> None:
    pod.record = SimpleNamespace(waiting=False, torn_down=False)
    ran = CliRunner().invoke(command, WORDS, catch_exceptions=False)
    assert (pod.begun, pod.gone_on, ran.exit_code) == ([], ["digits_1 in prod"], 1)


def test_a_pod_after_the_end_only_says_how_it_ended(pod: Pod) -> None:
    pod.record = SimpleNamespace(waiting=False, torn_down=True)
    ran = CliRunner().invoke(command, WORDS, catch_exceptions=False)
    assert (pod.begun, pod.gone_on, ran.exit_code) == ([], [], 1)
    assert "gs://b/jobs/digits_1/" in ran.output


def test_a_record_of_the_pods_own_is_refused(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(project: str) -> None:
        raise UsageError("the record is a file of this machine", where=project)

    monkeypatch.setattr("encamp.run.lifecycle.remote.require_remote", refuse)
    with pytest.raises(UsageError, match="a file of this machine"):
        CliRunner().invoke(command, WORDS, catch_exceptions=False)
    assert pod.begun == []


BARE = Path(__file__).parents[1] / "golden" / "basic-bare" / "job.yaml"
ENVIRONMENT = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
DRIVER = {"image": "gcr.io/lab/encamp:1", "backendUrl": "gs://lab-state", "recordSecret": "record"}


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is handed over to a cluster."""
    made: list[dict[str, Any]] = []

    def hand_over(_: Any, driver: Any, plan: Any, job: Any, **how: Any) -> None:
        made.append({"driver": driver.name, "job": plan.job_id, "data": job, **how})

    monkeypatch.setattr("encamp.run.lifecycle.driver.look_ahead", _always(None))
    monkeypatch.setattr("encamp.run.history.context.Context.environment", _always(None))
    monkeypatch.setattr("encamp.run.history.context.Context.cluster", _always(SimpleNamespace(close=_always(None))))
    monkeypatch.setattr("encamp.run.lifecycle.in_cluster.hand_over", hand_over)
    return made


def submitted(monkeypatch: pytest.MonkeyPatch, **block: Any) -> Any:
    spec = parse_environment({**ENVIRONMENT, **block}, project="my-project", source="x")
    monkeypatch.setattr("encamp.jobs.target.enter", _always(spec))
    words = [str(BARE), "--in-cluster", "--job-id", "bare_1", "--environment", "prod"]
    return CliRunner().invoke(submit, words, catch_exceptions=False)


def test_a_job_is_handed_over_with_its_id_and_who_did(
    handed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = submitted(monkeypatch, driver=DRIVER)
    assert (ran.exit_code, ran.stdout) == (0, "bare_1\n")
    assert "encamp attach bare_1 -s prod" in ran.stderr
    (one,) = handed
    assert (one["job"], one["data"]["jobId"], one["environment"]) == ("bare_1", "bare_1", "prod")
    assert one["driver"].startswith("encamp-driver-")
    assert {"user", "host"} <= set(one["started_by"])


def test_without_drivers_in_the_environment_nothing_is_handed_over(
    handed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="`driver` block"):
        submitted(monkeypatch)
    assert handed == []
