"""The example of a Pulumi program of one's own, copied out of the repository and brought up by the engine alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-program"
MODELS = "sandbox-encamp-models"


def finished(program: Camp) -> bool:
    """Whether the job's training has ended, and well."""
    (job_set,) = json.loads(program.tool("kubectl", "get", "jobsets", "-n", "vision-jobs", "-o", "json"))["items"]
    state = job_set.get("status", {}).get("terminalState")
    assert state in {None, "Completed"}, job_set["status"]
    return state is not None


def test_a_program_of_ones_own_adopts_a_cluster_and_trains_into_its_bucket(camp: Camp, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "vision", ignore=shutil.ignore_patterns("__pycache__"))
    program = replace(camp, checkout=folder)
    program.pulumi("stack", "init", "sandbox")
    try:
        program.pulumi("up", "--yes", "--skip-preview")
        program.until(lambda: finished(program))
        quality = camp.storage().read(MODELS, "wine/quality.json")
        assert json.loads(quality or b"{}")["accuracy"] > 0.9
        program.pulumi("preview", "--expect-no-changes")
        assert json.loads(program.pulumi("stack", "output", "--json")) == {
            "jobDir": f"gs://{MODELS}/wine",
            "jobSet": program.tool("kubectl", "get", "jobsets", "-n", "vision-jobs", "-o", "name")
            .strip()
            .split("/")[1],
            "namespace": "vision-jobs",
        }
    finally:
        program.pulumi("destroy", "--yes", "--skip-preview")
    program.pulumi("stack", "rm", "--yes", "sandbox")
    camp.assert_nothing_left()
    assert "vision-jobs" not in camp.tool("kubectl", "get", "namespaces", "-o", "name")
    # What was adopted is there as it was.
    camp.pulumi("preview", "-s", "sandbox", "--expect-no-changes")
