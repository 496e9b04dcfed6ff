"""What verbs about job files show of signed URLs in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from encamp.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://storage.googleapis.com/b/o?X-Goog-Algorithm=A&X-Goog-Signature=canary0"


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_plan_shows_no_signature(tmp_path: Path, output: str) -> None:
    job = {
        "trainingInput": {
            "region": "us-central1",
            "scaleTier": "BASIC",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "pythonModule": "trainer.task",
            "packageUris": ["gs://packages/trainer-0.1.tar.gz"],
            "args": ["--data", URL],
        }
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    run = CliRunner().invoke(cli, ["plan", str(file), "--format", output, "--full"])
    assert run.exit_code == 0, run.output
    assert "X-Goog-Signature=[secret]" in run.output
    assert "canary0" not in run.output
