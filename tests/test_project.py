"""Which project a command works in: the nearest one of encamp's kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from encamp import project
from encamp.errors import UsageError
from encamp.jobs.target import environment_named
from encamp.project import FOLDER_VARIABLE, find_project, project_folder, project_name
from encamp.run.engine.workspace import committed_stacks, make_workspace, state_folder
from encamp_sandbox.layout import ROOT_VARIABLE, Layout

REPOSITORY = Path(__file__).resolve().parents[1]
OWN = "name: mine\nmain: infra/\nstackConfigDir: stacks\nruntime:\n  name: python\n"
STACK = """
config:
  gcp:project: sandbox-mine
  encamp:environment: {name: lab, region: us-central1, artifactsBucket: sandbox-mine-results}
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (FOLDER_VARIABLE, ROOT_VARIABLE, "ENCAMP_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "stacks").mkdir(parents=True)
    (folder / "jobs" / "deep").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text(OWN)
    (folder / "stacks" / "Pulumi.lab.yaml").write_text(STACK)
    return folder


@pytest.mark.parametrize("below", [".", "jobs", "jobs/deep"])
def test_it_is_the_nearest_at_or_above_the_current_folder(
    mine: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.chdir(mine / below)
    assert project_folder() == mine
    assert project_name(mine) == "mine"
    assert committed_stacks() == ["lab"]
    assert environment_named("lab").artifacts_bucket == "sandbox-mine-results"
    assert state_folder() == mine / ".encamp"
    assert Layout.located().root == mine / ".encamp" / "sandbox"


@pytest.mark.parametrize(
    "other",
    [
        "name: web\nruntime: nodejs\nstackConfigDir: stacks\n",
        "name: infra\nruntime: python\n",
        "name: infra\nruntime: python\nstackConfigDir: config\n",
    ],
)
def test_other_projects_are_passed_over(mine: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    (mine / "jobs" / "Pulumi.yaml").write_text(other)
    monkeypatch.chdir(mine / "jobs" / "deep")
    assert project_folder() == mine


@pytest.mark.parametrize("main", ["main: infra/\n", ""])
def test_the_workspace_of_a_job_leads_to_its_project(mine: Path, monkeypatch: pytest.MonkeyPatch, main: str) -> None:
    (mine / "Pulumi.yaml").write_text(f"name: mine\n{main}stackConfigDir: ./stacks/\nruntime: python\n")
    monkeypatch.chdir(mine)
    folder = mine / ".encamp" / "jobs" / "one"
    make_workspace(folder, "one", {})
    program = folder / project.read_project(folder)["main"]
    assert program.resolve() == (mine / "infra" if main else mine)
    monkeypatch.chdir(folder)
    assert project_folder() == mine


def test_outside_of_every_project_it_is_the_checkout_that_encamp_runs_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_project() == REPOSITORY


def test_an_installed_encamp_says_how_a_project_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "repository", lambda: None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        project_folder()
    assert refused.value.where == str(tmp_path)
    assert "encamp init DIR" in str(refused.value)


def test_a_process_in_another_folder_is_told_by_a_variable(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(mine))
    assert project_folder() == mine
    monkeypatch.setenv(FOLDER_VARIABLE, str(mine / "jobs"))
    with pytest.raises(UsageError, match=FOLDER_VARIABLE):
        project_folder()


@pytest.mark.parametrize("text", ["- a\n", "name: [\n"])
def test_a_project_that_cannot_be_read_is_named(mine: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (mine / "Pulumi.yaml").write_text(text)
    monkeypatch.chdir(mine)
    with pytest.raises(UsageError) as refused:
        project_folder()
    assert refused.value.where == str(mine / "Pulumi.yaml")
