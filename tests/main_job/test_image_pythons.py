"""Replicas find what their image holds, and no more: what fails on GKE for want of a package fails here too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.main_job.job_files import write_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

SCIKIT_LEARN = """
import sklearn
import subprocess
print("sklearn is there;", "scripts:", subprocess.run(["pip", "--version"]).returncode)
"""
CALLBACK = """
import os
import numpy as np
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
model.compile(loss="mse")
zeros = np.zeros((8, 3)), np.zeros((8, 1))
model.fit(*zeros, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard(os.path.join("/tmp", "events"))])
print("events", any("tfevents" in name for _, _, names in os.walk("/tmp/events") for name in names))
for module in ("sklearn", "scipy", "encamp", "pulumi", "xgboost"):
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        print("no", error.name)
"""


def job(folder: Path, trainer: str, **encamp: Any) -> str:
    return write_job(folder, trainer, encamp)


def test_what_the_image_lacks_fails_and_is_named(camp: Camp, tmp_path: Path) -> None:
    said = camp.encamp("run", job(tmp_path, SCIKIT_LEARN), "--job-id", "without_sklearn", code=1)
    assert "the image of 2.11 has Python 3.8, TensorFlow 2.11.0; the sandbox 3." in said
    message = camp.receipt("without_sklearn")["outcome"]["message"]
    assert "ModuleNotFoundError: No module named 'sklearn'; try --requirement scikit-learn" in message
    camp.assert_nothing_left("without_sklearn")


def test_a_requirement_brings_it(camp: Camp, tmp_path: Path) -> None:
    file = job(tmp_path, SCIKIT_LEARN, requirements=["scikit-learn"])
    camp.encamp("run", file, "--job-id", "with_sklearn")
    assert "sklearn is there; scripts: 0" in camp.read("with_sklearn", "logs/master-replica-0.log")


def test_tensorboard_is_there_and_what_only_the_sandbox_needs_is_not(camp: Camp, tmp_path: Path) -> None:
    camp.encamp("run", job(tmp_path, CALLBACK), "--job-id", "with_tensorboard")
    log = camp.read("with_tensorboard", "logs/master-replica-0.log")
    assert "events True" in log
    assert [line.split()[1] for line in log.splitlines() if line.startswith("no ")] == [
        *("sklearn", "scipy", "encamp", "pulumi", "xgboost")
    ]
