"""A Keras model that a chief and a worker train in step, as docs/keras.md has it typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]


def test_a_cluster_without_parameter_servers_trains_a_keras_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from encamp.cli.main import main; main()", "local", "train"]
    flags = [
        *("--module-name", "trainer.task", "--package-path", str(REPOSITORY / "examples" / "keras" / "trainer")),
        *("--distributed", "--worker-count", "1", "--parameter-server-count", "0", "--job-dir", str(tmp_path / "out")),
        *("--python", sys.executable),
    ]
    ran = subprocess.run(
        [*command, *flags, "--", "--epochs=6", "--minimum-accuracy=0.85"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for role in ("chief 0", "worker 0"):
        assert f"{role}: one of 2 replicas" in ran.stdout
    assert (tmp_path / "out" / "model" / "saved_model.pb").is_file()
