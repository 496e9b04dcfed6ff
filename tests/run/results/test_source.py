"""The source of a trainer: its own repository, not encamp's."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from encamp.run.results.source import source_of, source_text, trainer_source

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *who, "-C", str(folder), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository of a team's own with a trainer in it, and other files that are no part of it."""
    folder = tmp_path / "census"
    (folder / "code" / "trainer").mkdir(parents=True)
    (folder / "code" / "trainer" / "task.py").write_text("print(1)\n")
    (folder / ".gitignore").write_text("*.pyc\nbuild/\n")
    git(tmp_path, "init", "--quiet", str(folder))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


JOB: dict[str, Any] = {"encamp": {"packagePath": "trainer"}}


def test_it_is_the_trainers_repository_and_commit(project: Path) -> None:
    commit = git(project, "rev-parse", "HEAD")
    found = {"repository": "census", "path": "code/trainer/", "commit": commit, "dirty": False}
    assert trainer_source(JOB, project / "code") == found
    (project / "notes.txt").write_text("of somebody")
    assert trainer_source(JOB, project / "code") == found, "a file elsewhere is no part of the trainer"
    (project / "code" / "trainer" / "more.py").write_text("")
    assert trainer_source(JOB, project / "code") == found | {"dirty": True}
    assert source_text(found | {"dirty": True}) == f"{commit}, with changes (census code/trainer/)"
    assert source_text({"commit": "c", "dirty": False}) == "c"


def test_a_trainer_that_git_ignores_is_in_no_commit(project: Path) -> None:
    (project / "build" / "trainer").mkdir(parents=True)
    (project / "build" / "trainer" / "task.py").write_text("")
    source = source_of(project / "build" / "trainer")
    assert source is not None
    assert source["dirty"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ana:token-of-ana@example.com/team/census.git", "https://example.com/team/census.git"),
        ("git@example.com:team/census.git", "git@example.com:team/census.git"),
    ],
)
def test_a_remote_is_named_without_its_credentials(project: Path, url: str, shown: str) -> None:
    git(project, "remote", "add", "origin", url)
    source = source_of(project / "code")
    assert source is not None
    assert source["repository"] == shown


def test_a_trainer_of_no_repository_or_of_no_machine_has_no_source(tmp_path: Path, project: Path) -> None:
    (tmp_path / "trainer").mkdir()
    assert trainer_source(JOB, tmp_path) is None
    assert trainer_source(JOB, tmp_path / "nowhere") is None
    assert trainer_source({"trainingInput": {}}, project) is None
    empty = tmp_path / "empty"
    git(tmp_path, "init", "--quiet", str(empty))
    assert source_of(empty) is None
