from __future__ import annotations

import os
from pathlib import Path

import pytest

from encamp.errors import UsageError
from encamp.run.local.checks import check_counts, check_job_dir, check_module, check_own_flags, package_root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a trainer, a folder that is no package, and a module."""
    for file in ("trainer/__init__.py", "trainer/task.py", "trainer/models/__init__.py", "trainer/models/wide.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "alone.py").touch()
    return tmp_path


def test_replicas_start_in_the_folder_above_the_package(project: Path) -> None:
    assert package_root("trainer", project) == project
    assert package_root(str(project / "trainer"), Path("/")) == project
    assert package_root(".", project / "trainer") == project


@pytest.mark.parametrize(
    ("path", "says", "hint"),
    [
        ("trianer", "there is no folder 'trianer'", "did you mean trainer?"),
        ("nothing-like-it", "there is no folder", "name the folder that holds the trainer's modules"),
        ("alone.py", "is a file, not a package", "name the folder that holds it"),
        ("data", "'data' has no __init__.py", "create data/__init__.py; it may be empty"),
    ],
)
def test_what_is_no_package_is_refused(project: Path, path: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        package_root(path, project)
    assert says in refused.value.what
    assert hint in (refused.value.hint or "")
    assert refused.value.where == "--package-path"


def test_a_package_that_cannot_be_imported_by_its_name_is_refused(project: Path) -> None:
    (project / "my-trainer").mkdir()
    (project / "my-trainer" / "__init__.py").touch()
    with pytest.raises(UsageError, match="rename it, such as to my_trainer"):
        package_root("my-trainer", project)


@pytest.mark.parametrize("module", ["trainer.task", "trainer.models.wide", "alone", "http.server"])
def test_modules_that_are_there_are_found(project: Path, module: str) -> None:
    check_module(module, project, [])


def test_modules_are_found_where_the_chosen_python_looks_too(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = tmp_path_factory.mktemp("site")
    for name in ("plain", "compiled", "mixed"):
        (site / name).mkdir()
    for file in ("plain/__init__.py", "plain/task.py", "compiled/fast.cpython-311-x86_64-linux-gnu.so", "mixed/a.py"):
        (site / file).touch()
    (project / "mixed").mkdir()
    for module in ("plain.task", "compiled.fast", "mixed.a"):
        check_module(module, project, [site])
        with pytest.raises(UsageError, match="there is no module"):
            check_module(module, project, [])
    (site / "editable.pth").write_text(f"# a comment\nimport os\n{project / 'elsewhere'}\n")
    with pytest.raises(UsageError, match="there is no module"):
        check_module("far.task", project, [site])
    (project / "elsewhere" / "far").mkdir(parents=True)
    check_module("far.task", project, [site])
    (site / "finder.pth").write_text("import __editable___thing_finder; __editable___thing_finder.install()\n")
    check_module("anything.task", project, [site])


def test_a_python_that_cannot_be_looked_into_is_believed(project: Path) -> None:
    check_module("somewhere.else_", project, None)
    with pytest.raises(UsageError, match="holds no 'tusk'"):
        check_module("trainer.tusk", project, None)


@pytest.mark.parametrize(
    ("module", "says", "hint"),
    [
        ("trainer.tasks", "there is no module 'trainer.tasks': trainer holds no 'tasks'", "did you mean trainer.task?"),
        ("trainer.xyz", "trainer holds no 'xyz'", "trainer holds models, task"),
        ("trianer.task", "there is no module 'trianer.task'", "did you mean trainer.task?"),
        ("other.task", "there is no module 'other.task'", "name it with --package-path"),
        ("trainer.task.main", "trainer.task is a module, not a package", "write trainer.task"),
        ("trainer", "is a package, and python -m runs a package only where", "such as trainer.models"),
        ("trainer/task.py", "is a path or no name", "write trainer.task"),
        ("task.py", "task is a module, not a package", "write task"),
        ("../task.py", "is a path or no name", "write task"),
        ("--epochs", "is a path or no name", "write a dotted name, such as trainer.task"),
        ("", "is a path or no name", "write a dotted name"),
    ],
)
def test_what_is_no_module_is_refused(project: Path, module: str, says: str, hint: str) -> None:
    if module.startswith("task"):
        (project / "task.py").touch()
    with pytest.raises(UsageError) as refused:
        check_module(module, project, [])
    assert says in refused.value.what
    assert hint in (refused.value.hint or "")
    assert refused.value.where == "--module-name"


def test_a_package_with_a_main_module_is_run(project: Path) -> None:
    (project / "trainer" / "__main__.py").touch()
    check_module("trainer", project, [])


@pytest.mark.parametrize("job_dir", [None, "gs://bucket/out", "out/of/here", "/tmp"])  # noqa: S108 - it is not written
def test_job_dirs_that_can_be_written_need_not_exist(project: Path, job_dir: str | None) -> None:
    check_job_dir(job_dir, project)
    assert not (project / "out").exists()


@pytest.mark.parametrize(
    ("job_dir", "says"),
    [
        ("alone.py", "is a file"),
        ("alone.py/below", "is a file"),
        (" ", "is empty"),
    ],
)
def test_job_dirs_that_cannot_be_written_are_refused(project: Path, job_dir: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        check_job_dir(job_dir, project)
    assert refused.value.where == "--job-dir"
    assert refused.value.hint


def test_a_job_dir_of_somebody_else_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def locked(path: Path, mode: int) -> bool:
        asked.append(f"{path.relative_to(project)} {mode == os.W_OK | os.X_OK}")
        return False

    monkeypatch.setattr(os, "access", locked)
    with pytest.raises(UsageError, match=r"'data/of/mine' cannot be written: .*data' belongs to somebody else"):
        check_job_dir("data/of/mine", project)
    assert asked == ["data True"]


def test_negative_counts_are_all_named() -> None:
    check_counts({"--worker-count": 0, "--evaluator-count": None})
    with pytest.raises(UsageError, match=r"--worker-count -1, --evaluator-count -3") as refused:
        check_counts({"--worker-count": -1, "--parameter-server-count": 2, "--evaluator-count": -3})
    assert refused.value.where == "--worker-count"


def test_arguments_of_the_trainer_that_are_spelled_as_our_flags_are_told_of() -> None:
    flags = ("--distributed", "--worker-count", "--job-dir")
    assert check_own_flags(["--epochs", "3", "--job-dir", "x"], flags) == ()
    warned = check_own_flags(["--distributed", "--worker-count=3", "--", "worker-count"], flags)
    assert [warning.split()[0] for warning in warned] == ["--distributed", "--worker-count=3"]
