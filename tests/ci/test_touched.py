"""Which stacks a change touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.ci.touched import StackKind, Was, stacks, touched_stacks

if TYPE_CHECKING:
    from pathlib import Path

JOB = {
    "trainingInput": {
        "scaleTier": "BASIC",
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "pythonModule": "trainer.task",
    },
    "encamp": {"packagePath": "src/trainer", "packages": ["wheels/own-1.0.tar.gz"]},
}


def write_stack(tree: Path, name: str, **config: Any) -> None:
    file = tree / "stacks" / f"Pulumi.{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"config": {f"encamp:{key}": value for key, value in config.items()}}))


def write_job(tree: Path, folder: str, job: Any) -> None:
    file = tree / folder / "job.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(job))


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal trees with two environments and a job in each."""
    for tree in (tmp_path / "base", tmp_path / "head"):
        write_stack(tree, "prod", environment={"name": "prod", "prices": "prices/contract.yaml"})
        write_stack(tree, "lab", environment={"name": "lab"})
        write_stack(tree, "digits", environmentStack="prod", job={"file": "jobs/digits/job.yaml"})
        write_stack(tree, "inline", environmentStack="lab", job=JOB)
        write_job(tree, "jobs/digits", JOB)
    return tmp_path / "base", tmp_path / "head"


def names(trees: tuple[Path, Path], *changed: str) -> list[str]:
    base, head = trees
    return [one.stack.name for one in touched_stacks(head, base, changed)]


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("stacks/Pulumi.lab.yaml", ["lab", "inline"]),
        ("stacks/Pulumi.prod.yaml", ["prod", "digits"]),
        ("stacks/Pulumi.digits.yaml", ["digits"]),
        ("prices/contract.yaml", ["prod", "digits"]),
        ("jobs/digits/job.yaml", ["digits"]),
        ("jobs/digits/src/trainer/deep/model.py", ["digits"]),
        ("jobs/digits/src/setup.py", ["digits"]),
        ("jobs/digits/wheels/own-1.0.tar.gz", ["digits"]),
        ("jobs/digits/evaluate.py", []),
        ("src/trainer/task.py", ["inline"]),
        ("README.md", []),
        ("infrastructure/notes.md", []),
        *((program, ["lab", "prod", "digits", "inline"]) for program in (
            "infra/encamp/plan/machines/pools.py", "templates/job-set.yaml.j2", "Pulumi.yaml", "requirements.lock",
        )),
    ],
)  # fmt: skip
def test_a_stack_is_touched_by_what_it_reads(trees: tuple[Path, Path], path: str, touched: list[str]) -> None:
    assert names(trees, path) == touched


def test_each_stack_says_what_became_of_it_and_why(trees: tuple[Path, Path]) -> None:
    base, head = trees
    write_stack(head, "more", environmentStack="prod", job={"file": "jobs/digits/job.yaml"})
    (head / "stacks" / "Pulumi.inline.yaml").unlink()
    changed = ("jobs/digits/job.yaml", "stacks/Pulumi.inline.yaml", "stacks/Pulumi.more.yaml")
    found = {one.stack.name: one for one in touched_stacks(head, base, changed)}
    assert {name: one.was for name, one in found.items()} == {
        "digits": Was.CHANGED,
        "inline": Was.REMOVED,
        "more": Was.ADDED,
    }
    assert found["inline"].stack.environment == "lab"
    assert found["more"].because == ("jobs/digits/job.yaml", "stacks/Pulumi.more.yaml")


def test_a_trainer_that_moved_counts_at_both_places(trees: tuple[Path, Path]) -> None:
    _, head = trees
    write_job(head, "jobs/digits", {**JOB, "encamp": {"packagePath": "new"}})
    assert names(trees, "jobs/digits/src/trainer/task.py") == ["digits"]
    assert names(trees, "jobs/digits/new/task.py") == ["digits"]


def test_of_a_job_that_cannot_be_read_the_whole_folder_counts(trees: tuple[Path, Path]) -> None:
    base, head = trees
    for tree in (base, head):
        (tree / "jobs" / "digits" / "job.yaml").write_text("trainingInput: [no, mapping]")
    assert names(trees, "jobs/digits/anything") == ["digits"]


def test_a_config_that_is_no_mapping_is_a_stack_all_the_same(trees: tuple[Path, Path]) -> None:
    _, head = trees
    (head / "stacks" / "Pulumi.lab.yaml").write_text("- nothing\n- of use")
    assert stacks(head)["lab"].kind is StackKind.OTHER
    assert "lab" in names(trees, "stacks/Pulumi.lab.yaml")
