"""Job files on this machine: planned as for the cloud, at addresses and in folders of here."""

from __future__ import annotations

import json
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from encamp.errors import EncampError, PlanError, UsageError
from encamp.plan.job import plan_job
from encamp.plan.model import LocalPackage
from encamp.plan.tf_config import replicas
from encamp.run.local import job as room
from encamp.run.local.job import LocalJobRequest, PreparedJob, local_job, prepared
from encamp.run.local.prepare import Machine
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

INPUT: dict[str, Any] = {
    "scaleTier": "CUSTOM",
    "region": "europe-west4",
    "masterType": "n1-standard-4",
    "workerType": "n1-standard-4",
    "workerCount": 2,
    "parameterServerType": "n1-standard-4",
    "parameterServerCount": 1,
    "evaluatorType": "n1-standard-4",
    "evaluatorCount": 1,
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "pythonModule": "trainer.task",
    "args": ["--epochs=3"],
    "jobDir": "gs://mine/out",
}


class Prepare:
    """Prepares jobs in a folder with a trainer."""

    def __init__(self, folder: Path, resources: ExitStack) -> None:
        self.folder = folder
        self.machine = Machine({"PATH": "/bin", "HOME": "/home/me"}, folder, sys.executable)
        self._resources = resources

    def __call__(
        self, changes: dict[str, Any] | None = None, block: dict[str, Any] | None = None, **request: Any
    ) -> PreparedJob:
        given = {key: value for key, value in {**INPUT, **(changes or {})}.items() if value is not None}
        data = {"jobId": "j", "trainingInput": given, "encamp": {"packagePath": "trainer", **(block or {})}}
        found = parse_job(data, source="job.yaml", folder=self.folder)
        asked = LocalJobRequest(**request)
        return prepared(local_job(found, asked, self.machine, self._resources), asked, self._resources)


@pytest.fixture
def prepare(tmp_path: Path) -> Any:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").touch()
    with ExitStack() as resources:
        yield Prepare(tmp_path, resources)


def test_every_replica_is_told_what_the_cloud_tells_it_at_addresses_of_here(prepare: Prepare) -> None:
    found = prepare()
    environment = EnvironmentSpec(
        name="e", project="sandbox-e", region="europe-west4", artifacts_bucket="sandbox-e-artifacts"
    )
    data = {"jobId": "j", "trainingInput": INPUT, "encamp": {"packagePath": "trainer"}}
    package = LocalPackage("trainer-1-py3-none-any.whl", "0" * 64, prepare.folder)
    cloud = plan_job(parse_job(data, source="j").job, environment, packages=[package])
    here = {replica.name: replica for replica in found.prepared.replicas}
    assert list(here) == [
        "master-replica-0",
        "worker-replica-0",
        "worker-replica-1",
        "ps-replica-0",
        "evaluator-replica-0",
    ]
    addresses: set[str] = set()
    for replica, there in zip(here.values(), replicas(cloud), strict=True):
        config: dict[str, Any] = json.loads(replica.env["TF_CONFIG"])
        assert there.tf_config is not None
        assert {task: len(hosts) for task, hosts in config["cluster"].items()} == {
            task: len(hosts) for task, hosts in there.tf_config["cluster"].items()
        }
        assert all(host.startswith("localhost:") for hosts in config["cluster"].values() for host in hosts)
        addresses |= {host for hosts in config["cluster"].values() for host in hosts}
        for key in ("task", "environment", "job"):
            assert config[key] == there.tf_config[key]
        assert replica.argv == (sys.executable, "-m", "trainer.task", "--epochs=3", "--job-dir", "gs://mine/out")
        assert replica.cwd == prepare.folder
        assert replica.env["HOME"] == "/home/me"
        assert replica.env["CLOUD_ML_JOB_ID"] == "j"
        assert replica.env["CLOUD_ML_REGION"] == "europe-west4"
        assert replica.env["CLOUD_ML_JOB"] == there.group.env["CLOUD_ML_JOB"]
        assert "CLUSTER_SPEC" not in replica.env
    assert len(addresses) == 4


def test_what_an_organisation_forbids_in_its_cloud_may_be_tried_here(prepare: Prepare) -> None:
    data = {"name": "e", "region": "europe-west4", "artifactsBucket": "acme-artifacts"}
    strict = data | {"policy": {"rules": [{"spotOnly": True, "requiredLabels": ["team"]}]}}
    environment = parse_environment(strict, project="acme-ml", source="x")
    assert len(prepare(environment=environment).prepared.replicas) == 5


def test_where_machines_come_from_is_nothing_to_this_one(prepare: Prepare) -> None:
    changes = {"scaleTier": "BASIC_GPU", **dict.fromkeys(key for key in INPUT if key.endswith(("Type", "Count")))}
    block = {"provisioning": "RESERVATION", "reservation": "ours", "mounts": [{"bucket": "data"}]}
    found = prepare(changes, block)
    assert [replica.name for replica in found.prepared.replicas] == ["master-replica-0"]
    assert "encamp.mounts: of no effect here, there is no /gcs on this machine" in found.prepared.notes


def test_an_image_with_a_module_has_cluster_spec_too(prepare: Prepare) -> None:
    image = {"runtimeVersion": None, "pythonVersion": None, "masterConfig": {"imageUri": "gcr.io/mine/torch"}}
    first = prepare(image).prepared.replicas[0]
    spec = json.loads(first.env["CLUSTER_SPEC"])
    assert spec["task"] == {"type": "master", "index": 0}
    assert spec["cluster"] == json.loads(first.env["TF_CONFIG"])["cluster"]


def test_a_container_that_runs_as_it_is_cannot_run_here(prepare: Prepare) -> None:
    image = {
        "runtimeVersion": None,
        "pythonVersion": None,
        "pythonModule": None,
        "masterConfig": {"imageUri": "gcr.io/mine/app"},
    }
    with pytest.raises(PlanError, match="containers are not run here") as caught:
        prepare(image, {"packagePath": None})
    assert caught.value.where == "trainingInput.masterConfig"


def test_counts_can_be_capped_and_what_is_cut_is_told(prepare: Prepare) -> None:
    found = prepare({"workerCount": 9}, max_replicas=1).prepared
    assert [replica.name for replica in found.replicas] == [
        "master-replica-0",
        "worker-replica-0",
        "ps-replica-0",
        "evaluator-replica-0",
    ]
    cluster = json.loads(found.replicas[0].env["TF_CONFIG"])["cluster"]
    assert {task: len(hosts) for task, hosts in cluster.items()} == {"chief": 1, "worker": 1, "ps": 1}
    assert "--max-replicas: 1 of 9 worker replicas run" in found.notes


def test_none_but_the_primary_may_be_asked_for(prepare: Prepare) -> None:
    (alone,) = prepare(max_replicas=0).prepared.replicas
    assert list(json.loads(alone.env["TF_CONFIG"])["cluster"]) == ["chief"]


def test_results_that_encamp_would_keep_lie_here(prepare: Prepare) -> None:
    found = prepare({"jobDir": None}, {"storage": {"kind": "ENVIRONMENT"}})
    job_dir = str(prepare.folder / "encamp-local" / "j")
    for replica in found.prepared.replicas:
        assert replica.argv[-2:] == ("--job-dir", job_dir)
        assert json.loads(replica.env["CLOUD_ML_JOB"])["job_dir"] == job_dir
        assert json.loads(json.loads(replica.env["TF_CONFIG"])["job"])["job_dir"] == job_dir
    assert f"the job dir is {job_dir}" in found.prepared.notes
    assert not (prepare.folder / "encamp-local").exists()


@pytest.mark.parametrize("block", [{}, {"storage": {"kind": "ENVIRONMENT"}}])
def test_the_job_dir_of_the_command_line_wins(prepare: Prepare, block: dict[str, Any]) -> None:
    changes: dict[str, Any] = {"jobDir": None} if block else {}
    replica = prepare(changes, block, job_dir="out").prepared.replicas[0]
    assert replica.argv[3:] == ("--epochs=3", "--job-dir", str(prepare.folder / "out"))
    remote = prepare(changes, block, job_dir="gs://b/x").prepared.replicas[0]
    assert remote.argv[3:] == ("--epochs=3", "--job-dir", "gs://b/x")


def test_a_job_without_a_job_dir_has_none(prepare: Prepare) -> None:
    found = prepare({"jobDir": None})
    assert all("--job-dir" not in replica.argv for replica in found.prepared.replicas)
    given = prepare({"jobDir": None}, job_dir="out").prepared.replicas[0]
    assert given.argv[-2:] == ("--job-dir", str(prepare.folder / "out"))


def test_packages_of_this_machine_come_by_pythonpath(prepare: Prepare) -> None:
    with zipfile.ZipFile(prepare.folder / "extra-1-py3-none-any.whl", "w") as archive:
        archive.writestr("extra/__init__.py", "")
        archive.writestr("extra-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
    block = {"packages": ["extra-1-py3-none-any.whl"]}
    found = prepare(None, block).prepared.replicas[0]
    assert (Path(found.env["PYTHONPATH"]) / "extra" / "__init__.py").is_file()
    with pytest.raises(UsageError, match=r"there is no file 'gone\.whl'"):
        prepare(None, {"packages": ["gone.whl"]})


def test_packages_of_a_bucket_are_fetched(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fetched(uris: Any, folder: Path) -> list[Path]:
        asked.append(list(uris))
        folder.mkdir()
        path = folder / "more-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("more.py", "")
        return [path]

    monkeypatch.setattr(room, "fetch", fetched)
    found = prepare({"packageUris": ["gs://mine/more-1-py3-none-any.whl"]}).prepared.replicas[0]
    assert asked == [["gs://mine/more-1-py3-none-any.whl"]]
    assert (Path(found.env["PYTHONPATH"]) / "more.py").is_file()


def test_accelerators_that_are_not_here_are_said_to_be_simulated(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 1}}
    changes = {"masterConfig": gpu, "workerConfig": gpu}
    here: list[str] = []

    def local_gpus(environ: object) -> tuple[str, ...]:
        del environ
        return tuple(here)

    monkeypatch.setattr(room, "local_gpus", local_gpus)
    assert any("simulated" in note for note in prepare(changes).prepared.notes)
    here += ["0", "1", "2"]
    visible = [replica.env["CUDA_VISIBLE_DEVICES"] for replica in prepare(changes).prepared.replicas]
    assert visible == ["0", "1", "2", "-1", "-1"]


@pytest.mark.parametrize(
    ("changes", "block", "says"),
    [
        ({"pythonModule": "trainer.taks"}, {}, "no module 'trainer.taks'"),
        ({}, {"packagePath": "train"}, "no folder 'train'"),
        ({}, {"requirements": ["no-such-package-at-all>=9"]}, "lacks no-such-package-at-all>=9"),
        ({"workerCount": 300}, {}, "replicas are more than run here"),
    ],
)
def test_what_cannot_run_here_is_refused(
    prepare: Prepare, changes: dict[str, Any], block: dict[str, Any], says: str
) -> None:
    with pytest.raises(EncampError, match=says) as caught:
        prepare(changes, block)
    assert caught.value.hint
