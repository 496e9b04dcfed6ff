"""The report: every belief of the table with what Google did, broken ones first, in two forms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.acceptance.test_ladder import HOURLY, PLANNED

from encamp.acceptance.answers import BeliefAnswer, BeliefState
from encamp.acceptance.cost import within
from encamp.acceptance.progress import Progress, RungResult
from encamp.acceptance.report import report_document, report_markdown, write_report
from encamp.acceptance.run import AcceptanceResult
from encamp.beliefs.table import beliefs
from encamp.errors import EngineError, ExitCode, TeardownError

if TYPE_CHECKING:
    from pathlib import Path

LADDER = within(PLANNED[:2], HOURLY, None, [("l4", "too dear")])


@pytest.fixture
def result(tmp_path: Path) -> AcceptanceResult:
    progress = Progress.begin(tmp_path, "lab", "20261122_090000", 1_795_000_000.0)
    progress.note("cpu", RungResult("job_1", "SUCCEEDED", as_believed=True, cost=0.004, seconds=61.4))
    progress.note("spot", RungResult("job_2", "FAILED", trouble="FAILED: a | b"))
    progress.add(
        iter(
            [
                BeliefAnswer("node-provider-id", BeliefState.HELD, "cpu", "gce://a"),
                BeliefAnswer("node-provider-id", BeliefState.BROKEN, "spot", "aws://\nx | y"),
                BeliefAnswer("node-conditions", BeliefState.HELD, "cpu", "all there"),
            ]
        )
    )
    return AcceptanceResult(progress, ended=1_795_003_600.0)


def test_the_document_has_every_belief_once(result: AcceptanceResult) -> None:
    document = report_document(result, LADDER, "acme-ml")
    found = {one["id"]: one for one in document["beliefs"]}
    assert found.keys() == beliefs().keys()
    assert [found[one]["state"] for one in ("node-provider-id", "node-conditions")] == ["broken", "held"]
    assert found["node-label-of-spot"] | {"says": "", "source": ""} == {
        "id": "node-label-of-spot",
        "area": "node-life",
        "says": "",
        "source": "",
        "sure": "documented",
        "state": "not asked",
        "answers": [],
        "why": "no step of this run could ask",
    }
    assert found["node-ends-with-its-run-duration"]["why"].startswith("ask by hand: ")
    assert (document["cost"]["receipts"], document["exitCode"]) == (0.0, 1)
    assert document["leftOut"] == [{"rung": "l4", "why": "too dear"}]


def test_people_read_what_is_broken_first(result: AcceptanceResult) -> None:
    text = report_markdown(report_document(result, LADDER, "acme-ml"))
    assert text.startswith("# Acceptance of lab in acme-ml\n")
    assert "2026-11-18T11:06:40Z to 2026-11-18T12:06:40Z, exit code 1." in text
    assert f"**1 beliefs held, 1 are broken, {len(beliefs()) - 2} were not asked.**" in text
    broken, areas = text.index("### `node-provider-id`"), text.index("## autoscaler")
    assert text.index("## Rungs") < broken < areas
    assert "- spot, broken: aws://" in text[broken:areas]
    assert "left out: too dear" in text
    for line in text.splitlines():
        if line.startswith(("| `", "| spot")):
            cells = line.replace("\\|", "").count("|") - 1
            assert cells in (3, 7), line


def test_both_forms_are_written(result: AcceptanceResult, tmp_path: Path) -> None:
    markdown, data = write_report(result, LADDER, "acme-ml", tmp_path / "new" / "folder")
    assert markdown.read_text().startswith("# Acceptance")
    assert json.loads(data.read_text())["run"] == "20261122_090000"


def test_the_exit_code_says_the_gravest_first(tmp_path: Path) -> None:
    progress = Progress.begin(tmp_path, "lab", "20261122_090000", 0.0)
    result = AcceptanceResult(progress)
    assert result.exit_code is ExitCode.OK
    progress.note("cpu", RungResult("job", "FAILED", trouble="FAILED"))
    assert result.exit_code is ExitCode.INFRASTRUCTURE_FAILED
    result.error = EngineError("the environment failed")
    assert result.exit_code is ExitCode.INFRASTRUCTURE_FAILED
    progress.add(iter([BeliefAnswer("b", BeliefState.BROKEN, "cpu", "otherwise")]))
    assert result.exit_code is ExitCode.JOB_FAILED
    result.cancelled = True
    assert result.exit_code is ExitCode.CANCELLED
    result.teardown_error = TeardownError("something is left")
    assert result.exit_code is ExitCode.TEARDOWN_FAILED
