"""Every example trains in the sandbox, reaches the quality that its job file states, and leaves only its model."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.camp import Camp, Command

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

EXAMPLES = Path(__file__).parents[2] / "examples"
BUCKET = "sandbox-encamp-artifacts"
#: What each example's replicas say of their place among the others, and what it leaves in its job dir.
SAID: dict[str, tuple[str, ...]] = {
    "multi-worker/job": (
        *(f"{role}: one of 3 replicas" for role in ("chief 0", "worker 0", "worker 1")),
        "evaluator-replica-0 | evaluator: epoch 20",
    ),
    "keras/job": tuple(f"{role}: one of 3 replicas" for role in ("chief 0", "worker 0", "worker 1")),
    "parameter-servers/job": (
        "chief 0: coordinates 2 workers and 2 parameter servers",
        "weights lie on ['/job:ps/replica:0/task:0/device:CPU:0', '/job:ps/replica:0/task:1/device:CPU:0']",
        *(f"{role}: serves at grpc" for role in ("worker 0", "worker 1", "ps 0", "ps 1")),
        "evaluator-replica-0 | evaluator: epoch 20",
    ),
    "process-group/job": (
        *(f"rank {rank} of 3" for rank in range(3)),
        "master-replica-0 | rank 0: step 300",
        "worker-replica-1 | rank 2: step 300",
    ),
    "model-parallel/job": (
        "4 x nvidia.com/gpu simulated",
        "a mesh of 2 x 2 devices [batch, model]",
        "the first layer [64, 64] lies on the devices as [[64, 32], [64, 32], [64, 32], [64, 32]]",
    ),
    "mirrored/job": ("2 x nvidia.com/gpu simulated", "2 replicas in sync"),
    "mirrored/job-4": ("4 x nvidia.com/gpu simulated", "4 replicas in sync"),
    "one-machine/job": (),
    "scikit-learn/job": (),
    "xgboost/job": (),
}
#: One argument more than the job file says: this job loses a worker on its way to the same quality.
MORE = {"multi-worker/job": "--lose-worker-after=10"}
MODEL = {"process-group": "model.npz", "scikit-learn": "model.joblib", "xgboost": "model.json"}


def job_id(example: str) -> str:
    return "example_" + re.sub(r"\W", "_", example)


@dataclass
class Runs:
    """Examples run by ``encamp``, the one that is asked for and the next beside it."""

    camp: Camp
    names: list[str]
    copies: Path
    started: dict[str, Command] = field(default_factory=dict)

    def said(self, name: str) -> str:
        at = self.names.index(name) if name in self.names else len(self.names)
        for each in (name, *self.names[at + 1 : at + 2]):
            if each not in self.started:
                path = str(EXAMPLES / f"{each}.yaml")
                if each in MORE:
                    path = changed(each.partition("/")[0], self.copies, MORE[each])
                self.started[each] = self.camp.start("run", path, "--job-id", job_id(each))
        return self.started[name].ends(0)


@pytest.fixture(scope="module")
def runs(shared_camp: Camp, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    names = [item.callspec.params.get("example") for item in request.session.items if hasattr(item, "callspec")]
    return Runs(shared_camp, [name for name in SAID if name in names], tmp_path_factory.mktemp("copies"))


def stated(example: str) -> float:
    """The least accuracy that the job file asks for."""
    job = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    (least,) = (
        float(arg.partition("=")[2]) for arg in job["trainingInput"]["args"] if arg.startswith("--minimum-accuracy=")
    )
    return least


def test_no_example_is_left_out() -> None:
    examples = {f"{path.parent.name}/{path.stem}" for path in EXAMPLES.glob("*/job*.yaml")}
    assert examples - {"digits/job", "tuning/job"} == set(SAID)


@pytest.mark.parametrize("example", SAID)
def test_the_example_trains_to_what_its_job_file_states(example: str, runs: Runs, camp: Camp) -> None:
    said, identity = runs.said(example), job_id(example)
    folder, _, _ = example.partition("/")
    for text in SAID[example]:
        assert text in said
    least = stated(example)
    assert least >= 0.9
    assert camp.accuracy(folder, identity, MODEL.get(folder, "model")) >= least
    receipt = camp.receipt(identity)
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    assert receipt["left"] == []
    prefix = f"jobs/{identity}/"
    kept = [stored.name.removeprefix(prefix) for stored in camp.storage().objects(BUCKET, prefix)]
    assert {name.partition("/")[0] for name in kept} <= {"output", "logs", "receipt.json"}
    assert any(name.startswith(f"output/{MODEL.get(folder, 'model')}") for name in kept)
    camp.assert_nothing_left(identity)


@pytest.mark.parametrize("example", ["multi-worker/job", "parameter-servers/job"])
def test_the_evaluator_writes_what_it_found_below_the_job_dir(example: str, runs: Runs, camp: Camp) -> None:
    runs.said(example)
    found = json.loads(camp.read(job_id(example), "output/evaluation/20.json"))
    assert found["epoch"] == 20
    assert found["accuracy"] >= stated(example)


def test_all_replicas_of_a_process_group_see_the_same_sums(runs: Runs) -> None:
    said = runs.said("process-group/job")
    last = re.findall(r"rank \d: step 300  loss ([\d.]+)", said)
    assert len(last) == 3
    assert len(set(last)) == 1


def test_a_model_below_the_stated_quality_fails_the_job(camp: Camp, tmp_path: Path) -> None:
    path = changed("scikit-learn", tmp_path, "--minimum-accuracy=1.01")
    here = ("--python", sys.executable, "--job-dir", str(tmp_path / "output"))
    said = camp.encamp("local", "train", path, *here, code=1)
    assert "test accuracy 1.0000 is below 1.01" in said


def test_a_job_that_loses_a_worker_goes_on_from_its_checkpoint(runs: Runs) -> None:
    before, after = runs.said("multi-worker/job").split("worker-replica-0 | worker 0: gone")
    assert "goes on" not in before
    for role in ("chief 0", "worker 0", "worker 1"):
        assert f"{role}: goes on after epoch 10" in after
    assert "epoch  10" in before


def changed(folder: str, target: Path, argument: str) -> str:
    """A copy of an example with one argument more; the path of its job file."""
    shutil.copytree(EXAMPLES / folder, target / folder)
    path = target / folder / "job.yaml"
    job = yaml.safe_load(path.read_text())
    job["trainingInput"]["args"].append(argument)
    path.write_text(yaml.safe_dump(job))
    return str(path)
