"""``encamp local train JOB.yaml`` as people run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import encamp

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
JOB = """
trainingInput:
  scaleTier: CUSTOM
  region: us-central1
  masterType: n1-standard-4
  workerType: n1-standard-4
  workerCount: 2
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  pythonModule: trainer.task
  args: [--epochs=3]
  scheduling: {maxRunningTime: 30s}
encamp:
  packagePath: code/trainer
  storage: {kind: ENVIRONMENT}
"""
TRAINER = """
import json, os, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
name = f"{task['type']}-{task['index']}"
folder = os.environ["OUT"]
with open(f"{folder}/{name}.part", "w") as file:
    json.dump({"argv": sys.argv[1:], "cwd": os.getcwd(), "cluster": config["cluster"]}, file)
os.rename(f"{folder}/{name}.part", f"{folder}/{name}.json")
while len([one for one in os.listdir(folder) if one.endswith(".json")]) < int(os.environ["ALL"]):
    time.sleep(0.01)
time.sleep(60 if os.environ.get("STAY") or task["type"] == "worker" else 0)
"""


def local_train(folder: Path, *flags: str, replicas: int = 3, **env: str) -> subprocess.CompletedProcess[str]:
    """Call the command in a folder with a job file and a trainer."""
    (folder / "code" / "trainer").mkdir(parents=True)
    (folder / "code" / "trainer" / "__init__.py").touch()
    (folder / "code" / "trainer" / "task.py").write_text(TRAINER)
    (folder / "job.yaml").write_text(JOB)
    (folder / "out").mkdir()
    variables = {"OUT": str(folder / "out"), "ALL": str(replicas), "PYTHONPATH": str(Path(encamp.__file__).parents[1])}
    command = [sys.executable, "-c", "from encamp.cli.main import main; main()", "local", "train"]
    return subprocess.run(
        [*command, "--python", sys.executable, *flags],
        cwd=folder,
        env={**os.environ, **variables, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def told(folder: Path) -> dict[str, dict[str, object]]:
    """What each replica has seen."""
    return {path.stem: json.loads(path.read_text()) for path in (folder / "out").glob("*.json")}


def test_every_replica_of_a_job_file_runs_from_the_trainers_sources(tmp_path: Path) -> None:
    ran = local_train(tmp_path, "job.yaml", "--job-id", "mine")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = told(tmp_path)
    assert sorted(seen) == ["chief-0", "worker-0", "worker-1"]
    for replica in seen.values():
        assert replica["cwd"] == str(tmp_path / "code")
        assert replica["argv"] == ["--epochs=3", "--job-dir", str(tmp_path / "encamp-local" / "mine")]
    assert f"the job dir is {tmp_path / 'encamp-local' / 'mine'}" in ran.stdout
    assert "master-replica-0 exited with 0" in ran.stdout


def test_flags_and_arguments_go_over_the_file(tmp_path: Path) -> None:
    flags = ("job.yaml", "--worker-count", "3", "--max-replicas", "1", "--job-dir", "out", "--", "--epochs=9")
    ran = local_train(tmp_path, *flags, replicas=2)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = told(tmp_path)
    assert sorted(seen) == ["chief-0", "worker-0"]
    assert seen["worker-0"]["argv"] == ["--epochs=9", "--job-dir", str(tmp_path / "out")]
    assert "--max-replicas: 1 of 3 worker replicas run" in ran.stdout


def test_a_job_ends_when_its_time_is_up(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    global_job = JOB.replace("30s", "1s")
    folder = tmp_path / "short"
    (folder / "short.yaml").write_text(global_job)
    ran = local_train(folder, "short.yaml", STAY="1")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "the job has run for 1 s, the longest that it may" in ran.stdout


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--epochs", "3"), "arguments of the trainer stand after --"),
        (("job.yaml", "more"), "arguments of the trainer stand after --"),
        ((), "--module-name: no trainer is named"),
        (("--module-name", "trainer.task", "--max-replicas", "1"), "--max-replicas: says something about a job file"),
        (("job.yaml", "--distributed"), "a job file says itself"),
        (("job.yaml", "--max-replicas", "-1"), "a count cannot be negative"),
        (("job.yaml", "--parallel-trials", "2"), "the job file tunes nothing, so that it has no trials"),
        (("gone.yaml",), "there is no such file"),
        (("job.yaml", "--module-name", "trainer.gone"), "no module 'trainer.gone'"),
    ],
)
def test_bad_input_is_refused_before_any_process_is_started(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    ran = local_train(tmp_path, *flags)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert told(tmp_path) == {}


@pytest.mark.jobs
@pytest.mark.sandbox
def test_the_digits_example_trains_here(tmp_path: Path) -> None:
    job = CHECKOUT / "examples" / "digits" / "job.yaml"
    ran = local_train(tmp_path, str(job), "--job-dir", "result")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "result" / "model" / "saved_model.pb").is_file()
    assert "one of 3 replicas" in ran.stdout
