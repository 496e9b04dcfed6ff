"""What ``encamp init`` writes: a project that loads, plans and is never written over another."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from packaging.requirements import Requirement

from encamp import __version__
from encamp.ci.touched import StackKind, stacks
from encamp.cli.init import command
from encamp.cli.main import cli
from encamp.errors import UsageError
from encamp.installed import pinned_requirements
from encamp.new_project import project_files, project_name_from, write_project
from encamp.project import read_project
from encamp.spec.environment import load_environment
from encamp.spec.job_stack import read_job_stack

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return project_files("camp", "acme-ml")


@pytest.fixture
def written(tmp_path: Path, files: dict[str, str]) -> Path:
    write_project(tmp_path / "camp", files)
    return tmp_path / "camp"


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_every_stack_loads(written: Path) -> None:
    found = stacks(written)
    kinds = {name: stack.kind for name, stack in found.items()}
    assert kinds == {
        "sandbox": StackKind.ENVIRONMENT,
        "production": StackKind.ENVIRONMENT,
        "example": StackKind.JOB,
        "production-example": StackKind.JOB,
    }
    for name, stack in found.items():
        spec = load_environment(stack.environment, written)
        assert spec.project == stack.config["gcp:project"]
        assert spec.project == ("acme-ml" if name.startswith("production") else "sandbox-encamp")
        if stack.kind is StackKind.JOB:
            job = read_job_stack(stack.config["encamp:job"], repository=written, stack=name)
            assert job.folder == written.resolve() / "jobs" / "example"


def test_its_job_is_valid_and_planned_in_the_project(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written / "jobs")
    assert invoke("validate", "example/job.yaml").exit_code == 0
    answer = invoke("plan", "example/job.yaml", "-s", "production")
    assert answer.exit_code == 0, answer.output
    assert "gs://acme-ml-artifacts/jobs/example/output" in answer.output


def test_program_and_workflows_are_encamps_own(written: Path) -> None:
    assert read_project(written)["name"] == "camp"
    own = read_project(ROOT)
    assert {key: read_project(written)[key] for key in ("main", "runtime", "stackConfigDir")} == {
        key: own[key] for key in ("main", "runtime", "stackConfigDir")
    }
    same = ["infra/__main__.py", *(f".github/workflows/{file.name}" for file in (ROOT / ".github/workflows").iterdir())]
    assert [name for name in same if (written / name).read_text() != (ROOT / name).read_text()] == []
    # What they call is there.
    commands = "\n".join((written / name).read_text() for name in same)
    assert re.findall(r"run: make (\w+)", commands) == ["setup"] * len(same[1:])
    assert re.search(r"^setup:", (written / "Makefile").read_text(), re.MULTILINE)


def test_what_it_makes_by_itself_is_ignored_by_git(written: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(written)], check=True)
    for name in (".venv/bin/python", ".encamp/sandbox/data", "encamp-local/one/model.json"):
        ended = subprocess.run(["git", "-C", str(written), "check-ignore", "--quiet", name], check=False)
        assert ended.returncode == 0, name


def test_every_version_is_pinned_and_no_registry_named(files: dict[str, str]) -> None:
    lines = [line for line in files["requirements.txt"].splitlines() if not line.startswith("#")]
    pins = {need.name: need for need in map(Requirement, lines)}
    assert re.fullmatch(rf"encamp(\[[a-z,]+\])?=={re.escape(__version__)}", lines[0])
    assert lines == pinned_requirements()
    assert {"click", "pulumi", "pulumi-gcp", "pydantic", "protobuf"} <= pins.keys()
    for name in pins.keys() - {"encamp"}:
        assert str(pins[name].specifier) == f"=={metadata.version(name)}"
    assert not {"pytest", "ruff", "tensorflow", "tensorflow-cpu"} & pins.keys()
    assert "://" not in files["requirements.txt"].partition("\n")[2]


def test_what_exists_is_named_and_nothing_is_written(tmp_path: Path, files: dict[str, str]) -> None:
    folder = tmp_path / "camp"
    (folder / "stacks").mkdir(parents=True)
    (folder / "stacks" / "Pulumi.production.yaml").write_text("mine")
    (folder / "README.md").symlink_to("nowhere")
    with pytest.raises(UsageError) as refused:
        write_project(folder, files)
    assert refused.value.where == str(folder)
    assert refused.value.what.endswith(": README.md, stacks/Pulumi.production.yaml")
    assert sorted(path.name for path in folder.rglob("*")) == ["Pulumi.production.yaml", "README.md", "stacks"]
    assert (folder / "stacks" / "Pulumi.production.yaml").read_text() == "mine"


def test_a_folder_with_other_files_is_taken_as_it_is(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / "jobs" / "census").mkdir(parents=True)
    write_project(tmp_path, files)
    assert (tmp_path / "jobs" / "example" / "job.yaml").is_file()
    assert (tmp_path / "jobs" / "census").is_dir()


def test_what_cannot_be_written_whole_is_not_written(tmp_path: Path, files: dict[str, str]) -> None:
    folder = tmp_path / "camp"
    folder.mkdir()
    # A file where a folder must be; it comes up in the middle.
    (folder / "jobs").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        write_project(folder, files)
    assert [path.name for path in folder.rglob("*")] == ["jobs"]


def test_the_command_says_what_to_do_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = invoke("init", "a camp")
    assert answer.exit_code == 0
    for words in ("cd 'a camp' && make setup", "encamp sandbox up", "pulumi stack init NAME"):
        assert words in answer.output
    assert yaml.safe_load((tmp_path / "a camp" / "Pulumi.yaml").read_text())["name"] == "a-camp"
    with pytest.raises(UsageError, match="exists already"):
        invoke("init", "a camp")


def test_names_have_their_form(tmp_path: Path) -> None:
    assert project_name_from(tmp_path / "-.") == "training"
    for words in (["--name", "a b"], ["--google-project", "Acme"]):
        with pytest.raises(UsageError, match=words[0]):
            CliRunner().invoke(command, [str(tmp_path / "x"), *words], catch_exceptions=False)
        assert not (tmp_path / "x").exists()
