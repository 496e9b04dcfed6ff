"""The end of ``encamp run`` as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.cli.ended import report
from encamp.run.ending import RunResult
from encamp.run.states import Outcome, State

if TYPE_CHECKING:
    import pytest

KEPT = "gs://b/jobs/j/"


def said(capsys: pytest.CaptureFixture[str], receipt: dict[str, Any] | None) -> str:
    report(RunResult(Outcome(State.SUCCEEDED), receipt, (), KEPT, None, None))
    return capsys.readouterr().out


def receipt(job_dir: str | None) -> dict[str, Any]:
    return {"jobId": "j", "name": "j-1", "outcome": {"state": "SUCCEEDED"}, "times": {}, "results": {"jobDir": job_dir}}


def test_results_are_named_last(capsys: pytest.CaptureFixture[str]) -> None:
    last = [f"results      {KEPT}", "copy them    encamp results j"]
    assert said(capsys, receipt("gs://b/jobs/j/output")).splitlines()[-2:] == last
    team = {**receipt("gs://b/jobs/j/output"), "environment": "team"}
    assert said(capsys, team).splitlines()[-1] == "copy them    encamp results j -s team"
    assert said(capsys, None) == f"results      {KEPT}\n"


def test_a_job_without_a_job_dir_is_told_that_its_output_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, receipt(None))
    assert f"kept         {KEPT} (logs and receipt)" in text
    assert "results " not in text
    assert "NO OUTPUT WAS KEPT" in text
    assert "--keep-output" in text.splitlines()[-1]
