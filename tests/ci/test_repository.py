"""What Git says of a checkout."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from encamp.ci.repository import changed_files, merge_base, write_tree
from encamp.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A branch that went its own way from main, which went on since."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name in ("kept", "edited", "deleted", "moved"):
        (folder / name).write_text(f"{name} at first\n" * 20)
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "outside").symlink_to("/etc/hostname")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "base")
    git(folder, "switch", "--quiet", "-c", "change")
    (folder / "edited").write_text("edited\n")
    git(folder, "rm", "--quiet", "deleted")
    git(folder, "mv", "moved", "moved here")
    git(folder, "commit", "--quiet", "-am", "change")
    git(folder, "switch", "--quiet", "main")
    (folder / "kept").write_text("main goes on\n")
    git(folder, "commit", "--quiet", "-am", "main")
    git(folder, "switch", "--quiet", "change")
    return folder


def test_a_change_is_what_differs_from_where_it_left_the_base(checkout: Path) -> None:
    (checkout / "new ünïcode").write_text("not committed yet")
    (checkout / "ignored").write_text("nobody's business")
    commit = merge_base(checkout, "main")
    assert changed_files(checkout, commit) == ("deleted", "edited", "moved", "moved here", "new ünïcode")


def test_a_project_in_a_folder_of_the_repository_sees_its_own_files_alone(checkout: Path, tmp_path: Path) -> None:
    project = checkout / "ml"
    (project / "stacks").mkdir(parents=True)
    (project / "stacks" / "a").write_text("at first\n")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "-m", "a project")
    commit = merge_base(project, "HEAD")
    (project / "stacks" / "a").write_text("changed\n")
    (project / "stacks" / "b").write_text("new\n")
    (checkout / "edited").write_text("of somebody else\n")
    assert changed_files(project, commit) == ("stacks/a", "stacks/b")
    write_tree(project, commit, tmp_path / "tree")
    assert (tmp_path / "tree" / "stacks" / "a").read_text() == "at first\n"


def test_the_bases_tree_is_written_beside_an_untouched_checkout(checkout: Path, tmp_path: Path) -> None:
    before = git(checkout, "status", "--porcelain")
    write_tree(checkout, merge_base(checkout, "main"), tmp_path / "tree")
    assert (tmp_path / "tree" / "edited").read_text() == "edited at first\n" * 20
    assert (tmp_path / "tree" / "deleted").exists()
    # A link that leads out of the tree is not followed, and not made.
    assert not (tmp_path / "tree" / "outside").is_symlink()
    assert git(checkout, "status", "--porcelain") == before


def test_an_unknown_base_says_how_to_get_it(checkout: Path) -> None:
    with pytest.raises(UsageError, match="fetch-depth: 0"):
        merge_base(checkout, "nowhere")


def test_a_base_that_looks_like_an_option_is_no_option(checkout: Path) -> None:
    with pytest.raises(UsageError, match="knows no commit"):
        merge_base(checkout, "--all")


def test_histories_without_a_common_commit_are_refused(checkout: Path) -> None:
    git(checkout, "switch", "--quiet", "--orphan", "alone")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "alone")
    with pytest.raises(UsageError, match="no commit in common"):
        merge_base(checkout, "main")


def test_a_folder_that_is_no_repository_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not a git repository"):
        merge_base(tmp_path, "main")
