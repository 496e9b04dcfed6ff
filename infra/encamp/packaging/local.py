"""The packages of a job that lie on this machine, in the order of their installation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from encamp.errors import PlanError, UsageError
from encamp.packaging.archives import check_archive
from encamp.packaging.building import built
from encamp.packaging.cache import cached, keep
from encamp.packaging.declared import build_file
from encamp.packaging.files import read_files
from encamp.packaging.imports import folder_imports
from encamp.packaging.module import MODULE, trainer_problem
from encamp.packaging.wheel import PACKAGE_PATH, pack
from encamp.plan.model import LocalPackage
from encamp.spec.rules.local_packages import ARCHIVES

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.plan.trainer_imports import TrainerImports
    from encamp.spec.job_file import JobFile

_PACKAGES = "encamp.packages"


def local_packages(job_file: JobFile) -> tuple[LocalPackage, ...]:
    """Return ``encamp.packages`` as they lie here, then the trainer folder, packed.

    A trainer with a ``setup.py`` or ``pyproject.toml`` beside it is built by that, which runs its code; any other is
    packed as it is. Nothing is written beside the sources.

    Raises:
        PlanError: a folder is no package or lacks the job's module, a file is no archive, or one of them leads out of
            the job file's folder.
        UsageError: there is no such file or folder, or the trainer's own build fails.
    """
    block = job_file.job.encamp
    given = [_archive(job_file, path, f"{_PACKAGES}[{index}]") for index, path in enumerate(block.packages or ())]
    return (*given, *([_trainer(job_file, block.package_path)] if block.package_path is not None else []))


def _archive(job_file: JobFile, given: str, where: str) -> LocalPackage:
    path = _inside(job_file, given, where)
    if not path.is_file():
        raise UsageError(f"there is no file {given!r} beside {job_file.source}", where=where)
    if not path.name.endswith(ARCHIVES):
        raise PlanError(f"{path.name} ends with none of {', '.join(ARCHIVES)}", where=where)
    check_archive(path, where)
    return _local(path)


def _trainer(job_file: JobFile, given: str) -> LocalPackage:
    path = _inside(job_file, given, PACKAGE_PATH)
    if not path.is_dir():
        raise UsageError(f"there is no folder {given!r} beside {job_file.source}", where=PACKAGE_PATH)
    problem = trainer_problem(job_file.job, job_file.folder) if job_file.folder is not None else None
    if problem is not None and problem.path == MODULE:
        raise PlanError(problem.message, where=problem.path, hint=problem.hint)
    folder = path.resolve()
    imports = folder_imports(folder, job_file.job.training_input.python_module)
    if build_file(folder.parent) is not None:
        if not (folder / "__init__.py").is_file():
            pack(folder.name, {})
        return _local(built(folder.parent, folder), imports)
    name, content = pack(folder.name, read_files(folder))
    key = hashlib.sha256(content).hexdigest()
    return _local(cached(key) or keep(key, name, content), imports)


def _inside(job_file: JobFile, given: str, where: str) -> Path:
    """Return a path beside the job file, links followed, that stays beside it."""
    if job_file.folder is None:
        raise UsageError("a job that lies in no file has no folder that this could lie in", where=where)
    path = job_file.folder / given
    if not path.resolve().is_relative_to(job_file.folder.resolve()):
        raise PlanError(f"{given!r} leads out of the job file's folder by a link", where=where)
    return path


def _local(path: Path, imports: TrainerImports | None = None) -> LocalPackage:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return LocalPackage(path.name, digest, path, imports)
