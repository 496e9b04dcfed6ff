"""The flags of the old submit client, as a user types them."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from encamp.cli.job_flags import JobCommand, flag_names, job_flags
from encamp.cli.main import main
from encamp.spec.job import TrainingJobSpec
from encamp.spec.loading import parse_document
from encamp.spec.reading import Reading, read_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cli.job_input import JobInput

BASE = ("--region", "us-central1", "--runtime-version", "2.11", "--python-version", "3.7")
TRAINER = ("--package-path", "trainer", "--module-name", "trainer.task")
FILE = {
    "trainingInput": {
        "region": "us-east1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "pythonModule": "trainer.task",
        "packageUris": ["gs://bucket/old.tar.gz"],
        "args": ["--old"],
    },
    "labels": {"kept": "no"},
}


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a trainer, and a cache of the test's own."""
    (tmp_path / "work" / "trainer").mkdir(parents=True)
    (tmp_path / "work" / "trainer" / "__init__.py").write_text("")
    (tmp_path / "work" / "trainer" / "task.py").write_text("")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ENCAMP_ENVIRONMENT", raising=False)


@pytest.fixture
def encamp(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: words in; exit code, output and errors out."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["encamp", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def job_of(*words: str) -> dict[str, Any]:
    """The job that a command line describes, as data."""
    found: list[JobInput] = []

    @click.command(cls=JobCommand)
    def command(job: JobInput) -> None:
        found.append(job)

    command.main([*words], standalone_mode=False)
    return found[0].load(None, suffix="now").job.model_dump(mode="json", by_alias=True, exclude_none=True)


def write(path: Path, **encamp: Any) -> str:
    path.write_text(yaml.safe_dump({**FILE, **({"encamp": encamp} if encamp else {})}))
    return str(path)


def test_the_output_of_a_job_is_kept_where_that_is_asked_for(encamp: Callable[..., tuple[int, str, str]]) -> None:
    assert job_of(*BASE, *TRAINER, "--keep-output")["encamp"]["storage"] == {"kind": "ENVIRONMENT"}
    code, errors, _ = encamp("validate", *BASE, *TRAINER, "--keep-output", "--job-dir", "gs://team/here")
    assert code == 2
    assert "[E01]" in errors
    assert "a job has one job dir" in errors


def test_flags_alone_are_a_job() -> None:
    job = job_of(*TRAINER, *BASE, "--", "--epochs=2", "--", "x")
    assert job["jobId"] == "trainer_now"
    assert job["encamp"]["packagePath"] == "trainer"
    assert job["trainingInput"]["pythonModule"] == "trainer.task"
    assert job["trainingInput"]["args"] == ["--epochs=2", "--", "x"]


def test_every_flag_sets_its_field() -> None:
    words = """--master-image-uri gcr.io/p/i --scale-tier custom --master-machine-type n1-standard-8
        --master-accelerator type=nvidia-tesla-t4,count=1 --worker-count 2 --worker-machine-type n1-standard-4
        --worker-image-uri gcr.io/p/w --parameter-server-count 1 --parameter-server-machine-type n1-standard-4
        --evaluator-count 1 --evaluator-machine-type n1-standard-4 --evaluator-accelerator count=1,type=nvidia-tesla-t4
        --use-chief-in-tf-config true --labels a=b,c=d --service-account me@p.iam.gserviceaccount.com
        --network projects/1/global/networks/n --enable-web-access --job-dir gs://bucket/out --region us-central1
        --kms-key k --kms-keyring r --kms-location us-central1 --kms-project p"""
    job = job_of(*words.split())
    training = job["trainingInput"]
    assert training["scaleTier"] == "CUSTOM"
    assert training["masterConfig"]["acceleratorConfig"] == {"type": "NVIDIA_TESLA_T4", "count": 1}
    assert training["evaluatorConfig"]["acceleratorConfig"] == {"type": "NVIDIA_TESLA_T4", "count": 1}
    assert training["workerConfig"] == {"imageUri": "gcr.io/p/w"}
    assert [training[f"{role}Count"] for role in ("worker", "parameterServer", "evaluator")] == [2, 1, 1]
    assert (training["masterType"], training["parameterServerType"]) == ("n1-standard-8", "n1-standard-4")
    assert (training["useChiefInTfConfig"], training["enableWebAccess"]) == (True, True)
    assert training["encryptionConfig"]["kmsKeyName"] == "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
    assert training["jobDir"] == "gs://bucket/out"
    assert job["labels"] == {"a": "b", "c": "d"}


def test_every_flag_names_a_field_of_the_job() -> None:
    for path, flag in flag_names().items():
        data: Any = "x"
        for part in reversed(path):
            data = {part: data}
        reading = Reading(parse_document(b"a: b", source="test"))
        read_model(TrainingJobSpec, data, reading)
        assert not [problem for problem in reading.problems if "unknown" in problem.message], flag
    assert len({flag.name for flag in job_flags()}) == len(job_flags())


@pytest.mark.parametrize("option", [(), ("--config",)])
def test_flags_win_over_the_file(tmp_path: Path, option: tuple[str, ...]) -> None:
    path = write(tmp_path / "one.yaml")
    job = job_of(*option, path, "--region", "us-west1", "--labels", "new=yes", "--", "--new")
    assert (job["trainingInput"]["region"], job["labels"]) == ("us-west1", {"new": "yes"})
    assert job["trainingInput"]["args"] == ["--new"]
    assert job["trainingInput"]["packageUris"] == ["gs://bucket/old.tar.gz"]
    assert job["jobId"] == "one_now"


def test_an_id_stands_before_config_as_the_old_client_took_it(
    tmp_path: Path, encamp: Callable[..., tuple[int, str, str]]
) -> None:
    path = write(tmp_path / "config.yaml")
    assert job_of("census_1", "--config", path, "--region", "us-west1")["jobId"] == "census_1"
    (tmp_path / "work" / "census_1").touch()
    code, _, err = encamp("plan", "census_1", "--config", path)
    assert (code, "--config: names a second file" in err) == (2, True)
    code, _, err = encamp("plan", "census_2", "--config", path, "--job-id", "census_3")
    assert (code, "--job-id: the job is called census_2 already" in err) == (2, True)


def test_a_study_of_a_file_goes_on_by_flags(tmp_path: Path) -> None:
    study = {"maxTrials": 12, "params": [{"parameterName": "a", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}
    path = tmp_path / "j.yaml"
    path.write_text(json.dumps({"trainingInput": {**FILE["trainingInput"], "hyperparameters": study}}))
    job = job_of(str(path), "--resume-previous-job-id", "before", "--max-trials", "6")
    tuned = job["trainingInput"]["hyperparameters"]
    assert (tuned["resumePreviousJobId"], tuned["maxTrials"], len(tuned["params"])) == ("before", 6, 1)


def test_a_study_goes_on_from_the_job_of_its_own_file_under_another_id(
    tmp_path: Path, encamp: Callable[..., tuple[int, str, str]]
) -> None:
    study = {"maxTrials": 2, "params": [{"parameterName": "a", "type": "INTEGER", "minValue": 0, "maxValue": 1}]}
    path = tmp_path / "j.yaml"
    path.write_text(json.dumps({"jobId": "j", "trainingInput": {**FILE["trainingInput"], "hyperparameters": study}}))
    code, out, err = encamp("plan", str(path), "--resume-previous-job-id", "j", "--job-id", "more")
    assert code == 0, err
    assert out.startswith("Job more in ")
    code, _, err = encamp("plan", str(path), "--resume-previous-job-id", "j")
    assert code != 0
    assert "j is this job itself" in err


#: What Google's samples called hptuning_config.yaml: a part of a job, to which flags add the rest.
HPTUNING = """
trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    maxTrials: 4
    maxParallelTrials: 2
    hyperparameterMetricTag: accuracy
    enableTrialEarlyStopping: TRUE
    params:
    - parameterName: first-layer-size
      type: INTEGER
      minValue: 50
      maxValue: 500
      scaleType: UNIT_LINEAR_SCALE
"""
OLD_SPELLING = re.sub(r"([a-z])([A-Z])(?=[a-zA-Z]*:)", lambda found: f"{found[1]}_{found[2].lower()}", HPTUNING)
BARE = "\n".join(line[2:] for line in HPTUNING.splitlines()[2:])


@pytest.mark.parametrize("text", [HPTUNING, OLD_SPELLING, BARE], ids=["camel", "snake", "bare"])
@pytest.mark.parametrize("option", [(), ("--config",)], ids=["file", "config"])
def test_the_old_file_of_a_study_and_flags_make_a_job(
    tmp_path: Path, encamp: Callable[..., tuple[int, str, str]], option: tuple[str, ...], text: str
) -> None:
    path = tmp_path / "work" / "hptuning_config.yaml"
    path.write_text(text)
    words = (*option, str(path), *TRAINER, *BASE, "--job-id", "j", "--scale-tier", "STANDARD_1")
    code, out, err = encamp("plan", *words, "--format", "json", "--", "--epochs=2")
    assert code == 0, err
    plan = json.loads(out)
    assert (plan["study"]["maxTrials"], plan["study"]["metric"]) == (4, "accuracy")
    assert plan["study"]["earlyStopping"] is True
    assert {replica["tfConfig"]["task"]["trial"] for replica in plan["replicas"]} == {"1"}
    assert plan["replicas"][0]["args"][:2] == ["--epochs=2", "--first-layer-size=<first-layer-size>"]
    code, out, err = encamp("plan", *words)
    assert code == 0, err
    assert "4, 2 at a time" in out
    assert "first-layer-size  INTEGER  50 .. 500  linear" in out


def test_packages_are_those_in_buckets_and_those_here(tmp_path: Path) -> None:
    job = job_of(write(tmp_path / "j.yaml"), "--packages", "gs://bucket/new.tar.gz,mine.whl,sub/other.zip")
    assert job["trainingInput"]["packageUris"] == ["gs://bucket/new.tar.gz"]
    assert job["encamp"]["packages"] == ["mine.whl", "sub/other.zip"]


def test_folders_of_file_and_flags_come_together(tmp_path: Path, encamp: Callable[..., tuple[int, str, str]]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.zip").write_bytes(b"no zip")
    path = write(tmp_path / "jobs" / "job.yaml", packages=["a.zip"])
    assert job_of(path, "--package-path", "trainer")["encamp"] == job_of(path)["encamp"] | {
        "packages": ["jobs/a.zip"],
        "packagePath": "work/trainer",
    }
    code, _, err = encamp("plan", path, "--package-path", "trainer")
    assert (code, "a.zip cannot be read" in err) == (2, True)


def test_a_link_of_the_file_does_not_leave_its_folder(
    tmp_path: Path, encamp: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "secret.zip").write_bytes(b"")
    (tmp_path / "jobs" / "a.zip").symlink_to(tmp_path / "secret.zip")
    path = write(tmp_path / "jobs" / "job.yaml", packages=["a.zip"])
    code, _, err = encamp("plan", path, "--package-path", "trainer")
    assert (code, "leads out" in err) == (2, True)


def test_a_trainer_elsewhere_is_packed(tmp_path: Path, encamp: Callable[..., tuple[int, str, str]]) -> None:
    path = write(tmp_path / "job.yaml")
    (tmp_path / "deep").mkdir()
    code, out, err = encamp("manifests", path, "--package-path", str(tmp_path / "work" / "trainer"))
    assert code == 0, err
    config_map = next(one for one in yaml.safe_load_all(out) if one["kind"] == "ConfigMap")
    packages = json.loads(config_map["data"]["bootstrap.json"])["packages"]
    assert [uri.rpartition("/")[2] for uri in packages] == ["old.tar.gz", "trainer-0.0.0-py3-none-any.whl"]


def test_packages_go_to_the_staging_bucket(encamp: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = encamp("plan", *TRAINER, *BASE, "--staging-bucket", "gs://mine", "--job-id", "j")
    assert code == 0, err
    assert "package  gs://mine/j/" in out
    assert "roles/storage.objectViewer on gs://mine/" in out


def test_requirements_reach_the_replicas(encamp: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = encamp("manifests", *TRAINER, *BASE, "--requirement", "a>=1", "--requirement", "b", "--job-id", "j")
    config_map = next(one for one in yaml.safe_load_all(out) if one["kind"] == "ConfigMap")
    assert json.loads(config_map["data"]["bootstrap.json"])["requirements"] == ["a>=1", "b"]


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--region", "nowhere"), "--region"),
        (("--scale-tier", "huge"), "--scale-tier"),
        (("--worker-count", "many"), "--worker-count"),
        (("--staging-bucket", "gs://bucket/folder"), "--staging-bucket"),
        (("--requirement", "-r file"), "--requirement"),
        (("--packages", "a.egg"), "--packages"),
        (("--labels", "A=b"), "--labels"),
        (("--job-dir", "out"), "--job-dir"),
    ],
)
def test_a_problem_names_the_flag(
    encamp: Callable[..., tuple[int, str, str]], words: tuple[str, ...], flag: str
) -> None:
    code, out, _ = encamp("validate", *TRAINER, *BASE, *words, "--format", "json")
    paths = {problem["path"] for problem in json.loads(out)["problems"]}
    assert (code, flag in paths) == (2, True), out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no job is named"),
        (("a.yaml", "--config", "b.yaml"), "--config: names a second file"),
        (("--master-accelerator", "nvidia-tesla-t4"), "--master-accelerator: 'nvidia-tesla-t4' must be KEY=VALUE"),
        (("--master-accelerator", "type=x"), "--master-accelerator: must be type=TYPE,count=NUMBER"),
        (("--labels", "a=1,a=2"), "--labels: names a twice"),
        (("--use-chief-in-tf-config", "maybe"), "must be true or false"),
        (("--kms-key", "k", "--kms-location", "l"), "needs --kms-keyring, --kms-project"),
        (("--kms-project", "p"), "--kms-project: says nothing without --kms-key"),
        (("--package-path", "nowhere", "--module-name", "a.b", *BASE), "there is no folder 'nowhere'"),
    ],
)
def test_a_flag_that_says_nothing_is_refused(
    encamp: Callable[..., tuple[int, str, str]], words: tuple[str, ...], said: str
) -> None:
    code, _, err = encamp("plan", *words)
    assert (code, said in err) == (2, True), err


@pytest.mark.parametrize("verb", ["validate", "plan"])
@pytest.mark.parametrize(
    ("words", "where", "hint"),
    [
        (
            ("--module-name", "trainer.tsak"),
            "'trainer.tsak' is not in the package folder trainer",
            "write trainer.task",
        ),
        (
            ("--module-name", "trianer.task"),
            "'trianer.task' is not in the package folder trainer",
            "write trainer.task",
        ),
        (("--module-name", "trainer"), "'trainer' is not in the package folder", "write trainer.task"),
        (("--module-name", "trainer.task", "--package-path", "trainr"), "there is no folder 'trainr'", ""),
    ],
)
def test_a_module_that_the_package_lacks_is_found(
    encamp: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    verb: str,
    *,
    words: tuple[str, ...],
    where: str,
    hint: str,
) -> None:
    code, out, err = encamp(verb, "--package-path", "trainer", *words, *BASE)
    assert (code, where in out + err, hint in out + err) == (2, True, True), out + err
    path = tmp_path / "work" / "job.yaml"
    path.write_text(yaml.safe_dump({"trainingInput": {**FILE["trainingInput"], "packageUris": []}}))
    code, out, err = encamp(verb, str(path), "--package-path", "trainer", *words)
    assert (code, where in out + err) == (2, True), out + err


def test_a_module_that_something_else_may_bring_is_taken(
    encamp: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    words = ("--package-path", "trainer", "--module-name", "other.task", *BASE)
    assert encamp("validate", *words)[0] == 2
    assert encamp("validate", *words, "--requirement", "other")[0] == 0
    (tmp_path / "work" / "setup.py").touch()
    assert encamp("validate", *words)[0] == 0
    assert encamp("validate", *words, "--module-name", "trainer.fast")[0] == 2
    (tmp_path / "work" / "trainer" / "fast.pyx").touch()
    assert encamp("validate", *words, "--module-name", "trainer.fast")[0] == 0


def test_validate_builds_nothing(encamp: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "work" / "setup.py").write_text("open('ran', 'w')")
    code, out, _ = encamp("validate", *TRAINER, *BASE)
    assert (code, "the command line: valid" in out) == (0, True)
    assert not (tmp_path / "work" / "ran").exists()
    assert not (tmp_path / "cache").exists()


def test_two_packages_of_one_name_are_refused(encamp: Callable[..., tuple[int, str, str]]) -> None:
    name = "trainer-0.0.0-py3-none-any.whl"
    code, _, err = encamp("plan", *TRAINER, *BASE, "--packages", f"gs://bucket/{name}")
    assert (code, f"two packages are called {name}" in err) == (2, True)


def test_help_has_sections(encamp: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = encamp("run", "--help")
    for words in ("[JOB.yaml] [-- ARGS...]", "Code (instead", "Machines (instead", "--evaluator-machine-type"):
        assert words in out
