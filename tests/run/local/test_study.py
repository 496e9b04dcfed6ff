"""Tuning jobs on this machine: what trials are told, what becomes of them, and that a study outlives its command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import encamp
from encamp.errors import UsageError
from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.local.console import RunConsole
from encamp.run.local.job import LocalJobRequest, local_job
from encamp.run.local.model import LocalRunOptions
from encamp.run.local.prepare import Machine
from encamp.run.local.slots import Slots, make_slots
from encamp.run.local.study import run_study
from encamp.run.local.study_record import StudyRecord, earlier_trials, read_record
from encamp.spec.job_file import parse_job
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN = StudyPlan(
    goal=Goal.MINIMIZE,
    metric="loss",
    parameters=(ParameterPlan("x", ParameterType.INTEGER, 1, 9),),
    algorithm=Algorithm.RANDOM_SEARCH,
    max_trials=4,
    max_parallel_trials=2,
    max_failed_trials=0,
    early_stopping=False,
    resumes=None,
    seed=1,
)
JOB: dict[str, Any] = {
    "jobId": "tuned",
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": 1,
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "pythonModule": "trainer.task",
        "args": ["--epochs=3"],
        "hyperparameters": {
            "goal": "MINIMIZE",
            "hyperparameterMetricTag": "loss",
            "algorithm": "GRID_SEARCH",
            "maxTrials": 4,
            "maxParallelTrials": 2,
            "maxFailedTrials": 3,
            "params": [{"parameterName": "x", "type": "DISCRETE", "discreteValues": [1, 2, 3, 4]}],
        },
    },
    "encamp": {"packagePath": "trainer", "storage": {"kind": "ENVIRONMENT"}},
}
#: Of its four trials one fails, one reports nothing, one writes a summary, and one reports as the library does.
TRAINER = """
import json, os, struct, sys, time, zlib
config = json.loads(os.environ["TF_CONFIG"])
task, trial = config["task"], os.environ["CLOUD_ML_TRIAL_ID"]
x = int(sys.argv[2].partition("=")[2])
job_dir = sys.argv[sys.argv.index("--job-dir") + 1]
seen = {"argv": sys.argv[1:], "task": task, "cluster": config["cluster"], "tag": os.environ["CLOUD_ML_HP_METRIC_TAG"]}
os.makedirs(f"{job_dir}/seen", exist_ok=True)
note = f"{job_dir}/seen/{trial}-{task['type']}"
with open(note, "w") as file:
    json.dump(seen, file)
os.rename(note, note + ".json")
if task["type"] == "worker":
    time.sleep(60)
while not os.path.exists(f"{job_dir}/seen/{trial}-worker.json"):
    time.sleep(0.01)
if x == 1:
    sys.exit("it does not converge")
if x == 3:
    import google_crc32c
    def masked(data):
        value = google_crc32c.value(data)
        return struct.pack("<I", (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
    os.makedirs(f"{job_dir}/{trial}/eval")
    value = b"\\x0a\\x04loss\\x15" + struct.pack("<f", 0.25)
    summary = b"\\x0a" + bytes([len(value)]) + value
    event = b"\\x09" + struct.pack("<d", time.time()) + b"\\x10\\x07\\x2a" + bytes([len(summary)]) + summary
    head = struct.pack("<Q", len(event))
    with open(f"{job_dir}/{trial}/eval/events.out.tfevents.1", "wb") as file:
        file.write(head + masked(head) + event + masked(event))
if x == 4:
    with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
        for step in (1, 2):
            record = {"timestamp": 5.0 + step, "trial": trial, "loss": str(1 / step), "global_step": str(step)}
            file.write(json.dumps(record) + "\\n")
"""
#: Waits until it may end, and says that it runs.
WAITING = """
import json, os, sys, time
trial, x = os.environ["CLOUD_ML_TRIAL_ID"], int(sys.argv[2].partition("=")[2])
with open(f"begun-{trial}-{os.getpid()}", "w"):
    pass
while not os.path.exists(f"go-{trial}"):
    time.sleep(0.01)
print("encamp-metric: " + json.dumps({"loss": x, "global_step": 1}), flush=True)
"""


def made(folder: Path, text: str) -> Path:
    (folder / "trainer").mkdir()
    (folder / "trainer" / "__init__.py").touch()
    (folder / "trainer" / "task.py").write_text(text)
    return folder


@pytest.fixture
def work() -> Iterator[ExitStack]:
    with ExitStack() as resources:
        yield resources


def slots(folder: Path, work: ExitStack, *, wanted: int | None = None, **environ: str) -> Slots:
    """The slots of the job, with a trainer in the folder."""
    found = parse_job(JOB, source="job.yaml", folder=folder)
    machine = Machine({"PATH": os.environ["PATH"], **environ}, folder, sys.executable)
    request = LocalJobRequest()
    return make_slots(local_job(found, request, machine, work), request, wanted, work)


def trial(number: int, state: TrialState = TrialState.SUCCEEDED, **given: Any) -> Trial:
    return Trial(number, {"x": number}, state, job_id="j", **given)


def test_each_slot_has_ports_and_gpus_of_its_own(tmp_path: Path, work: ExitStack) -> None:
    found = slots(made(tmp_path, TRAINER), work, CUDA_VISIBLE_DEVICES="0,1")
    told = [found.replicas(trial(number), slot, tmp_path / str(number)) for slot, number in ((0, 7), (1, 8))]
    configs = [[json.loads(replica.env["TF_CONFIG"]) for replica, _ in one] for one in told]
    addresses = [hosts for both in configs for hosts in (*both[0]["cluster"]["chief"], *both[0]["cluster"]["worker"])]
    assert len(set(addresses)) == 4
    assert [config["task"]["trial"] for both in configs for config in both] == ["7", "7", "8", "8"]
    assert [replica.name for replica, _ in told[1]] == ["trial-8-master-replica-0", "trial-8-worker-replica-0"]
    files = [path for one in told for _, path in one]
    assert len(set(files)) == 4
    assert [replica.env["CLOUD_ML_HP_METRIC_FILE"] for one in told for replica, _ in one] == list(map(str, files))
    argv = told[0][0][0].argv
    assert argv[argv.index("--epochs=3") + 1 :][:2] == ("--x=7", "--job-dir")


@pytest.mark.parametrize(("wanted", "at_once"), [(None, 2), (1, 1), (9, 2)])
def test_fewer_trials_may_run_at_a_time(tmp_path: Path, work: ExitStack, wanted: int | None, at_once: int) -> None:
    found = slots(made(tmp_path, TRAINER), work, wanted=wanted)
    assert (found.study.max_parallel_trials, len(found.ports)) == (at_once, at_once)
    assert f"trials: 4, {at_once} at a time" in found.notes
    assert any("maxParallelTrials of the job is 2" in note for note in found.notes) == (wanted == 9)
    with pytest.raises(UsageError, match="0 trials at a time"):
        slots(tmp_path, work, wanted=0)


def test_a_record_is_gone_on_with(tmp_path: Path) -> None:
    ended = trial(1, final=Measurement(3, 0.5, 1.0))
    with StudyRecord(tmp_path / "j", PLAN, "j") as record:
        for one in (trial(1, TrialState.RUNNING), ended, trial(2, TrialState.RUNNING, started=3.0)):
            record.keep(one)
        record.keep(trial(3, TrialState.CANCELLED, ended=4.0))
        with pytest.raises(UsageError, match="another command runs the study"):
            StudyRecord(tmp_path / "j", PLAN, "j")
    with (tmp_path / "j" / "study.jsonl").open("ab") as file:
        file.write(b'{"number": 4, "val')
    with StudyRecord(tmp_path / "j", replace(PLAN, max_trials=9), "j") as record:
        assert record.trials == [ended, trial(2, TrialState.PREPARING), trial(3, TrialState.PREPARING)]
        record.keep(trial(4))
    assert [one.number for one in read_record(tmp_path / "j")[1]] == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="has other goal than the job file"):
        StudyRecord(tmp_path / "j", replace(PLAN, goal=Goal.MAXIMIZE), "j")


def test_another_study_may_go_on_from_it(tmp_path: Path) -> None:
    with StudyRecord(tmp_path / "j", PLAN, "j") as record:
        record.keep(trial(1))
        record.keep(trial(2, TrialState.RUNNING))
    later = replace(PLAN, resumes="j")
    earlier = earlier_trials(tmp_path, later)
    assert earlier == (trial(1),)
    for _ in range(2):
        with StudyRecord(tmp_path / "k", later, "k", earlier) as record:
            assert record.trials == [trial(1)]
    for wrong in ("none", "../j", ""):
        with pytest.raises(UsageError, match="no trials of"):
            earlier_trials(tmp_path, replace(PLAN, resumes=wrong))
    with pytest.raises(UsageError, match="other params"):
        earlier_trials(tmp_path, replace(later, parameters=()))


@pytest.mark.slow
def test_trials_run_as_on_the_cluster(tmp_path: Path, work: ExitStack) -> None:
    found = slots(made(tmp_path, TRAINER), work)
    said: list[str] = []
    console = RunConsole(said.append, [], logs=tmp_path / "logs")
    code = asyncio.run(run_study(found, LocalRunOptions(), console, tmp_path / "encamp-local"))
    console.close()
    text = "".join(said)
    assert code == 0, text
    folder = tmp_path / "encamp-local" / "tuned"
    results = json.loads((folder / "trials.json").read_text())
    states = {one["values"]["x"]: (one["state"], one["message"]) for one in results["trials"]}
    assert [states[x][0] for x in (1, 2, 3, 4)] == ["FAILED", "FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert "exited with 1: it does not converge" in states[1][1]
    assert "it reported no metric 'loss'; report it with cloudml-hypertune" in states[2][1]
    assert {one["values"]["x"]: one["final"][:2] for one in results["trials"] if one["final"]} == {
        3: [7, 0.25],
        4: [2, 0.5],
    }
    assert "best: trial" in text
    assert "--x=3" in text.partition("best: ")[2]
    assert (folder / "tuning.html").exists()
    seen = {path.stem: json.loads(path.read_text()) for path in (folder / "seen").iterdir()}
    assert len(seen) == 8
    for one in results["trials"]:
        replica = seen[f"{one['number']}-worker"]
        assert replica["task"] == {"type": "worker", "index": 0, "trial": str(one["number"])}
        assert replica["argv"] == ["--epochs=3", f"--x={one['values']['x']:g}", "--job-dir", str(folder)]
        assert replica["tag"] == "loss"
    assert len(list((tmp_path / "logs").iterdir())) == 8


@pytest.mark.jobs
@pytest.mark.slow
def test_a_study_outlives_its_command(tmp_path: Path) -> None:
    made(tmp_path, WAITING)
    (tmp_path / "job.json").write_text(json.dumps(JOB | {"trainingInput": JOB["trainingInput"] | {"workerCount": 0}}))
    with tuning(tmp_path) as command:
        begun(tmp_path, 1, 2)
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate(timeout=30)
        assert command.returncode == 130, output
    assert "SIGINT: the study is ended" in output
    assert [one.state for one in recorded(tmp_path)] == [TrialState.CANCELLED] * 2
    nobody(tmp_path)
    (tmp_path / "go-1").touch()
    with tuning(tmp_path) as command:
        begun(tmp_path, 2, 3)
        command.kill()
        command.communicate(timeout=30)
    nobody(tmp_path)
    for number in (2, 3, 4):
        (tmp_path / f"go-{number}").touch()
    with tuning(tmp_path) as command:
        output, _ = command.communicate(timeout=60)
        assert command.returncode == 0, output
    trials = recorded(tmp_path)
    assert [(one.number, one.state) for one in trials] == [(number, TrialState.SUCCEEDED) for number in (1, 2, 3, 4)]
    assert len({one.values["x"] for one in trials}) == 4


@contextlib.contextmanager
def tuning(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a folder, of which nothing is left."""
    command = [sys.executable, "-c", "from encamp.cli.main import main; main()", "local", "train", "job.json"]
    process = subprocess.Popen(
        [*command, "--python", sys.executable],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(encamp.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(30)


def begun(folder: Path, *numbers: int) -> None:
    """Wait until these trials run."""
    deadline = time.monotonic() + 60
    while not all(list(folder.glob(f"begun-{number}-*")) for number in numbers):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def nobody(folder: Path) -> None:
    """Wait until no process of a trial that was begun is left; and forget that they were."""
    deadline = time.monotonic() + 30
    notes = list(folder.glob("begun-*"))
    while any(psutil.pid_exists(int(note.name.rpartition("-")[2])) for note in notes):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for note in notes:
        note.unlink()


def recorded(folder: Path) -> list[Trial]:
    """The trials that are on record."""
    return read_record(folder / "encamp-local" / "tuned")[1]
