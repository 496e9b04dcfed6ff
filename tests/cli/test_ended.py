"""The end of ``encamp run`` as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.cli.ended import report
from encamp.cli.verbosity import Verbosity
from encamp.run.lifecycle.ending import RunResult
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    import pytest

KEPT = "gs://b/jobs/j/"


def said(
    capsys: pytest.CaptureFixture[str], receipt: dict[str, Any] | None, verbosity: Verbosity = Verbosity.VERBOSE
) -> str:
    report(RunResult("digits_1", Outcome(State.SUCCEEDED), receipt, (), KEPT, None, None), verbosity)
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


def test_only_a_verbose_end_lists_times_and_resources(capsys: pytest.CaptureFixture[str]) -> None:
    whole: dict[str, Any] = {
        **receipt("gs://b/jobs/j/output"),
        "times": {"QUEUED": "2026-05-01T12:00:00+00:00"},
        "resources": [{"type": "a:b:NodePool", "name": "n1", "created": "t1", "deleted": "t2"}],
        "nodeSeconds": {"n1": 90.2},
        "left": [],
        "gone": "2026-05-01T12:05:00+00:00",
    }
    long = said(capsys, whole, Verbosity.VERBOSE)
    assert "queued       2026-05-01T12:00:00+00:00\n" in long
    assert "             t1  t2  NodePool n1\n" in long
    assert said(capsys, whole, Verbosity.SHORT).splitlines() == [
        "",
        "job          j (j-1)",
        "outcome      SUCCEEDED",
        "resources    1 created, 1 deleted",
        "machine time 1 min 30 s of n1",
        "job dir      gs://b/jobs/j/output",
        "left         nothing",
        f"results      {KEPT}",
        "copy them    encamp results j",
    ]


def test_a_quiet_end_is_the_outcome_and_where_the_results_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["job          j (j-1)", "outcome      SUCCEEDED"]
    whole = said(capsys, receipt("gs://b/jobs/j/output"), Verbosity.QUIET)
    assert whole.splitlines() == [*lines, f"results      {KEPT}"]
    without = said(capsys, receipt(None), Verbosity.QUIET)
    assert without.splitlines() == [*lines, f"kept         {KEPT} (logs and receipt)"]
