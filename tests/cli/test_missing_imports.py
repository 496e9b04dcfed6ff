from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from encamp.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent.parent
JOB = """trainingInput:
  region: us-central1
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  pythonModule: trainer.task
encamp:
  packagePath: trainer
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trainer that needs what its image lacks, in a folder of its own."""
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text("import os\nimport tensorflow\nfrom sklearn.svm import SVC\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def said(*words: str) -> str:
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def warnings(*words: str) -> Sequence[str]:
    found = json.loads(said("validate", "--format", "json", *words))["warnings"]
    return [f"{warning['message']}; {warning['hint']}" for warning in found]


def test_validate_and_plan_say_the_same(job: Path) -> None:
    (told,) = warnings(str(job))
    assert told.startswith("trainer/task.py:3 imports sklearn, which tensorflow/tensorflow:2.11.0 does not have")
    assert told.endswith("give --requirement scikit-learn")
    assert f"! {told}\n" in said("plan", str(job), "--environment", "sandbox")
    text = said("validate", str(job))
    assert "    try: add scikit-learn to encamp.requirements, or give --requirement scikit-learn\n" in text
    assert text.endswith("job.yaml: valid, 1 warning\n")


def test_the_flag_of_the_warning_ends_it(job: Path) -> None:
    assert warnings(str(job), "--requirement", "scikit-learn") == []
    job.write_text(f"{JOB}  requirements: [pandas]\n")
    (told,) = warnings(str(job))
    assert told.endswith("give --requirement scikit-learn")
    assert warnings(str(job), "--requirement", "scikit-learn") == []
    job.write_text(f"{JOB}  requirements: [scikit-learn==0.1]\n")
    path = ("--requirement", "Scikit_Learn>=1", "--requirement", "pandas", "--job-id", "j")
    manifests = yaml.safe_load_all(said("manifests", str(job), *path))
    config_map = next(one for one in manifests if one["kind"] == "ConfigMap")
    assert json.loads(config_map["data"]["bootstrap.json"])["requirements"] == ["Scikit_Learn>=1", "pandas"]


def test_flags_alone_describe_a_trainer(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job.parent)
    flags = ("--package-path", "trainer", "--module-name", "trainer.task", "--region", "us-central1")
    assert len(warnings(*flags, "--runtime-version", "2.11", "--python-version", "3.7")) == 1
    # Python 2 has no stock image, which is the plan's to say.
    assert warnings(*flags, "--runtime-version", "1.14", "--python-version", "2.7") == []


def test_validate_reads_nothing_beyond_the_job_files_folder(job: Path) -> None:
    outside = job.parent / "trainer"
    (job.parent / "jobs").mkdir()
    (job.parent / "jobs" / "trainer").symlink_to(outside, target_is_directory=True)
    (job.parent / "jobs" / "job.yaml").write_text(JOB)
    assert warnings(str(job.parent / "jobs" / "job.yaml")) == []


def test_a_build_file_is_not_run(job: Path) -> None:
    text = "from setuptools import setup\nsetup(name='trainer', install_requires=['scikit-learn'])\nexit(1)\n"
    (job.parent / "setup.py").write_text(text)
    assert warnings(str(job)) == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/job*.yaml")), ids=lambda path: path.parent.name)
def test_no_example_misses_anything(path: Path) -> None:
    assert [told for told in warnings(str(path)) if " imports " in told] == []


@pytest.mark.parametrize("name", ["digits", "xgboost", "one-machine"])
def test_an_example_without_its_requirements_does(name: str, tmp_path: Path) -> None:
    text = (ROOT / "examples" / name / "job.yaml").read_text()
    shutil.copytree(ROOT / "examples" / name / "trainer", tmp_path / "trainer")
    lines = [line for line in text.splitlines() if not line.strip().startswith("requirements:")]
    (tmp_path / "job.yaml").write_text("\n".join(lines))
    assert any("imports sklearn" in told for told in warnings(str(tmp_path / "job.yaml")))
