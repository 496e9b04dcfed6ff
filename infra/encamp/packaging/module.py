"""Looks for a job's module in its trainer folder. Reads names of files only: nothing is built, imported or run."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from encamp.errors import PlanError, Problem
from encamp.packaging.building import build_file
from encamp.packaging.wheel import PACKAGE_PATH

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.spec.job import TrainingJobSpec

MODULE = "trainingInput.pythonModule"
_MOST_NAMES = 5000


def trainer_problem(job: TrainingJobSpec, folder: Path) -> Problem | None:
    """Return the problem of a job's trainer folder, or of the module that it should hold; None without one.

    ``folder`` is the one that the job's local packages are relative to. A module of another package is left alone where
    something else may bring it: further packages, requirements, a build file, or the image.
    """
    if job.encamp.package_path is None:
        return None
    trainer = folder / job.encamp.package_path
    if not trainer.resolve().is_relative_to(folder.resolve()):
        return None  # Not looked into; whoever packs it refuses it.
    return _folder_problem(trainer, job.encamp.package_path) or _module_problem(job, trainer)


def _folder_problem(trainer: Path, given: str) -> Problem | None:
    if not trainer.is_dir():
        return Problem(PACKAGE_PATH, None, None, f"there is no folder {given!r}", _near_folder(trainer))
    if not (trainer / "__init__.py").is_file():
        return Problem(PACKAGE_PATH, None, None, f"{given} has no __init__.py: it is no package", "add an empty one")
    return None


def _module_problem(job: TrainingJobSpec, trainer: Path) -> Problem | None:
    module = job.training_input.python_module
    if module is None:
        return None
    try:
        built = build_file(trainer.resolve().parent) is not None
    except PlanError as error:
        return Problem(PACKAGE_PATH, None, None, error.what, error.hint)
    package, *rest = module.split(".")
    own = package == trainer.name
    if _holds(trainer, rest, built=built) if own else built or _has_others(job):
        return None
    known = _modules(trainer)
    near = difflib.get_close_matches(module, known, n=1)
    hint = f"write {near[0]}" if near else f"it holds {', '.join(known[:5])}" if known else "add a module to it"
    message = f"{module[:120]!r} is not in the package folder {job.encamp.package_path}"
    return Problem(MODULE, None, None, message, hint)


def _holds(trainer: Path, rest: list[str], *, built: bool) -> bool:
    """Whether ``python -m`` finds a module; a build may make it from a file of another ending."""
    path = trainer.joinpath(*rest)
    if (path / "__main__.py").is_file():
        return True
    if not rest:
        return False
    return path.with_name(f"{path.name}.py").is_file() or (built and any(path.parent.glob(f"{path.name}.*")))


def _has_others(job: TrainingJobSpec) -> bool:
    given = job.training_input
    image = given.master_config is not None and given.master_config.image_uri is not None
    return bool(given.package_uris or job.encamp.packages or job.encamp.requirements or image)


def _modules(trainer: Path) -> list[str]:
    """Return the names that ``python -m`` takes, of the files of a package."""
    found: list[str] = []
    for path in sorted(trainer.rglob("*.py"))[:_MOST_NAMES]:
        *folders, name = path.relative_to(trainer.parent).with_suffix("").parts
        if name != "__init__":
            found.append(".".join(folders if name == "__main__" else [*folders, name]))
    return found


def _near_folder(trainer: Path) -> str | None:
    try:
        packages = [path.parent.name for path in trainer.parent.glob("*/__init__.py")]
    except OSError:
        return None
    near = difflib.get_close_matches(trainer.name, packages, n=1)
    return f"did you mean {near[0]}?" if near else None
