"""The example's trainer as a plain process: what it reports by the real cloudml-hypertune is what a study reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "tuning"


@pytest.mark.slow
def test_the_trainer_reports_each_epoch_and_writes_below_its_trial(tmp_path: Path) -> None:
    metrics = tmp_path / "hypertune" / "output.metrics"
    told = {"CLOUD_ML_HP_METRIC_FILE": str(metrics), "CLOUD_ML_TRIAL_ID": "7", "OMP_NUM_THREADS": "1"}
    values = ("--learning-rate=0.1", "--hidden=24", "--batch-size=32")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "trainer.task", "--epochs=12", *values, "--job-dir", str(tmp_path)],
        cwd=EXAMPLE,
        env={**os.environ, **told},
        check=True,
    )
    reports = [json.loads(line) for line in metrics.read_text().splitlines()]
    job = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
    tag = job["trainingInput"]["hyperparameters"]["hyperparameterMetricTag"]
    assert [one["global_step"] for one in reports] == [str(epoch) for epoch in range(1, 13)]
    assert {one["trial"] for one in reports} == {"7"}
    assert float(reports[-1][tag]) > 0.9
    assert float(reports[0][tag]) < float(reports[-1][tag])
    evaluated = subprocess.run(
        [sys.executable, "evaluate.py", str(tmp_path / "7" / "model.joblib")],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(evaluated.stdout.removeprefix("test accuracy ")) > 0.85
