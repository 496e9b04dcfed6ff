"""Jobs from Python: the same answers as the command line's, nothing printed, and a process that is left as it was."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from click.testing import CliRunner
from tests.ended_job import BUCKET, store_ended_job

import encamp
from encamp import jobs
from encamp.cli.main import cli
from encamp.cloud import rest
from encamp.errors import EncampError, EngineError, SandboxError, SpecError, TeardownError, UsageError
from encamp.jobs import target
from encamp.jobs.visiting import visiting
from encamp.run.lifecycle.ending import RunResult
from encamp.run.store.states import Outcome, State
from encamp.spec.job_file import load_job

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = b"step 1\n\xff odd\nlast\n"
REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "examples" / "digits" / "job.yaml"


@pytest.fixture(autouse=True)
def session(committed: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - what it sets
    opened = requests.Session()
    monkeypatch.setattr(rest, "_default_session", lambda: opened)


@pytest.fixture
def ended(google: Any) -> str:
    """A job that another machine ran to its end."""
    receipt: dict[str, Any] = {
        "cost": {"currency": "USD", "amount": 0.25, "unpriced": []},
        "results": {"jobDir": f"gs://{BUCKET}/jobs/digits_1/output", "kept": f"gs://{BUCKET}/jobs/digits_1/"},
    }
    return store_ended_job(google, LOG, "it gave up", receipt, **{"output/model": b"weights"})


def command(*words: str) -> Any:
    said = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def test_the_commands_show_what_the_functions_return(ended: str, capfd: pytest.CaptureFixture[str]) -> None:
    (found,) = jobs.list(environment="sandbox")
    details, planned = jobs.describe(ended), jobs.plan(JOB, job_id="a")
    assert capfd.readouterr() == ("", "")
    assert command("list") == [found.to_json()]
    assert command("describe", ended) == details.resource
    assert command("plan", str(JOB), "--job-id", "a") == json.loads(json.dumps(planned.document))
    assert (found.state, found.running_seconds, found.cost_usd) == ("FAILED", 90.0, 0.25)
    assert (details.message, details.ended) == ("it gave up", datetime(2026, 5, 2, 10, 2, 30, tzinfo=UTC))
    assert details.job_dir == f"{details.results}output"
    assert jobs.list(state="running") == ()


def test_logs_come_as_lines_of_which_a_part_can_be_had(ended: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = jobs.logs(ended)
    assert [line.text for line in found.lines] == ["step 1", "\\xff odd", "last"]
    assert {line.replica for line in found.lines} == {"master-replica-0"}
    assert found.lacking == {"master-replica-0": "the pod is gone"}
    assert str(found).splitlines()[0] == "master-replica-0 | step 1"
    assert [line.text for line in jobs.logs(ended, tail=1).lines] == ["last"]
    assert jobs.logs(ended, since=timedelta(minutes=1)).lines == ()
    assert len(jobs.logs(ended, since=datetime(2026, 5, 1, tzinfo=UTC)).lines) == 3
    with pytest.raises(UsageError, match="master-replica-0"):
        jobs.logs(ended, replica="master-replica-1")
    assert capfd.readouterr() == ("", "")


def test_results_are_copied_once(ended: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    copied = jobs.results(ended, tmp_path / "here", progress=lambda there, total: seen.append((there, total)))
    assert (tmp_path / "here" / "output" / "model").read_bytes() == b"weights"
    assert (copied.files, copied.already_there, copied.left_out, copied.goes_on) == (4, 0, (), "")
    assert seen[-1] == (copied.size, copied.size)
    assert jobs.results(ended, tmp_path / "here").already_there == 4
    assert capfd.readouterr() == ("", "")


def test_what_is_wrong_is_an_error_of_encamps(ended: str, tmp_path: Path) -> None:
    wrong: list[tuple[Callable[[], object], type[EncampError], str]] = [
        (lambda: jobs.plan(tmp_path / "no.yaml"), UsageError, "no.yaml"),
        (lambda: jobs.plan({"pythonModule": "a.b", "region": "here"}), SpecError, "the job: region"),
        (lambda: jobs.plan(JOB, environment="nowhere"), UsageError, "there is no environment 'nowhere'"),
        (lambda: jobs.describe("digits_2"), UsageError, "did you mean digits_1"),
        (lambda: jobs.cancel(ended), UsageError, "this job has ended"),
    ]
    for call, kind, said in wrong:
        with pytest.raises(kind, match=said) as raised:
            call()
        assert isinstance(raised.value, encamp.EncampError)


def test_a_job_is_a_file_a_mapping_or_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = load_job(JOB).job
    data = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    plans = [
        jobs.plan(JOB, job_id="a"),
        jobs.plan(str(JOB), job_id="a"),
        jobs.plan(data, job_id="a", folder=JOB.parent),
        jobs.plan(spec, job_id="a", folder=JOB.parent),
    ]
    assert all(each == plans[0] for each in plans)
    assert (plans[0].job_id, plans[0].replicas) == ("a", {"master": 1, "worker": 2})
    assert plans[0].worst_case_usd is not None
    with pytest.raises(UsageError, match="trainer"):
        jobs.plan(spec, job_id="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plans[0].job_id = "b"  # type: ignore[misc]


def test_a_running_event_loop_is_no_obstacle(ended: str) -> None:
    """A notebook's cells run within the loop of their kernel."""

    async def cell() -> tuple[str, ...]:
        return tuple(job.job_id for job in jobs.list())

    assert asyncio.run(cell()) == (ended,)


class Clouds:
    """Stands for entering a cloud: sets a variable, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = False
        monkeypatch.setattr(target, "_enter_sandbox", self.enter)
        monkeypatch.setenv("PATH", "/before")
        monkeypatch.delenv("PULUMI_HOME", raising=False)

    def enter(self) -> None:
        os.environ.update({"PATH": "/sandbox", "PULUMI_HOME": "/sandbox"})
        if self.fails:
            raise SandboxError("the sandbox does not run")


def variables() -> tuple[str | None, str | None]:
    return os.environ.get("PATH"), os.environ.get("PULUMI_HOME")


def test_a_call_leaves_the_environment_variables_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds = Clouds(monkeypatch)
    with visiting("sandbox"), visiting("sandbox"):
        assert variables() == ("/sandbox", "/sandbox")
    assert variables() == ("/before", None)
    clouds.fails = True
    with pytest.raises(SandboxError), visiting("sandbox"):
        pass
    assert variables() == ("/before", None)
    clouds.fails = False
    monkeypatch.setenv("ENCAMP_ENVIRONMENT", "production")
    with visiting(None) as stack:
        assert (stack, variables()) == ("production", ("/before", None))


def test_calls_of_two_clouds_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    Clouds(monkeypatch)
    with visiting("sandbox"):
        with pytest.raises(UsageError, match="another call of this process is in the sandbox's cloud"):
            jobs.list(environment="production")
        assert variables() == ("/sandbox", "/sandbox")
    with visiting("production"), pytest.raises(UsageError, match="in Google's cloud"):
        jobs.list(environment="sandbox")
    assert variables() == ("/before", None)


KEPT = "gs://b/jobs/digits_1/"


def test_a_failed_training_is_a_result() -> None:
    receipt = {"results": {"jobDir": f"{KEPT}output"}, "cost": {"amount": 0.5}}
    failed = jobs.JobRun.of(RunResult("digits_1", Outcome(State.FAILED, "exited with 7"), receipt, (), KEPT))
    assert (failed.succeeded, failed.message, failed.cost_usd) == (False, "exited with 7", 0.5)
    assert jobs.JobRun.of(RunResult("digits_1", Outcome(State.SUCCEEDED), receipt, (), KEPT)).succeeded


def test_a_failed_infrastructure_is_an_error_and_what_is_left_comes_first() -> None:
    trouble, left = EngineError("no machines"), TeardownError("a bucket is left")
    for error, teardown, raised in ((trouble, None, trouble), (trouble, left, left), (None, left, left)):
        result = RunResult("digits_1", Outcome(State.FAILED), None, (), KEPT, error, teardown)
        with pytest.raises(EncampError) as found:
            jobs.JobRun.of(result)
        assert found.value is raised
    # Cancelling ends the bringing up by an error, which is no news.
    cancelled = RunResult("digits_1", Outcome(State.CANCELLED), None, (), KEPT, trouble)
    assert jobs.JobRun.of(cancelled).state == "CANCELLED"


def test_every_function_stands_on_its_page() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text()
    for name in jobs.__all__:
        # A module of the room of the same name would hide a function once it is imported.
        assert callable(getattr(jobs, name)), name
        assert getattr(jobs, name).__doc__, name
        if name not in {"LeftOutObject", "LogLine"}:
            assert f"`{name}" in page, name
