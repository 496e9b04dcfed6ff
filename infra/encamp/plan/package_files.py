"""Reads the files of a trainer folder, and nothing outside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp.errors import PlanError, UsageError
from encamp.plan.package import MAXIMUM_BYTES, LocalPackage, pack

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.spec.job_file import JobFile

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "node_modules"})
_LEFT_OUT_ENDINGS = (".pyc", ".pyo", ".swp", "~")
_MOST_FILES = 5000
_WHERE = "encamp.packagePath"


def local_package(job_file: JobFile) -> LocalPackage | None:
    """The packed trainer of a job file, or None where it names no folder.

    Raises:
        PlanError: the folder is no package, or reaches outside itself.
        UsageError: there is no such folder.
    """
    given = job_file.job.encamp.package_path
    if given is None:
        return None
    if job_file.folder is None:
        raise UsageError("a job that lies in no file has no folder to pack", where=_WHERE)
    folder = job_file.folder / given
    if not folder.is_dir():
        raise UsageError(f"there is no folder {given!r} beside {job_file.source}", where=_WHERE)
    if not folder.resolve().is_relative_to(job_file.folder.resolve()):
        raise PlanError(f"{given!r} leads out of the job file's folder by a link", where=_WHERE)
    return pack(folder.resolve().name, read_files(folder))


def read_files(folder: Path) -> dict[str, bytes]:
    """Files of a folder by their path inside it, with ``/``.

    Caches and hidden files are left out; links are followed as long as they stay inside.

    Raises:
        PlanError: a link leads out of the folder, or there are too many files or bytes.
    """
    root = folder.resolve()
    files: dict[str, bytes] = {}
    size = 0
    for path in _walk(root):
        target = path.resolve()
        if not target.is_relative_to(root):
            raise PlanError(f"the link {path.relative_to(root)} leads out of the package", where=_WHERE)
        if not target.is_file():
            continue
        size += target.stat().st_size
        if size > MAXIMUM_BYTES or len(files) >= _MOST_FILES:
            limit = f"{_MOST_FILES} files and {MAXIMUM_BYTES} bytes"
            raise PlanError(f"the package has more than {limit}", where=_WHERE, hint="keep data in a bucket")
        files[path.relative_to(root).as_posix()] = target.read_bytes()
    return dict(sorted(files.items()))


def _walk(root: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(root, followlinks=False):
        here = root / os.path.relpath(parent, root)
        for name in folders:
            if (here / name).is_symlink():
                raise PlanError(f"{name} is a link to a folder; a package holds its own files", where=_WHERE)
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT_FOLDERS and not name.startswith("."))
        found.extend(
            here / name for name in sorted(names) if not name.startswith(".") and not name.endswith(_LEFT_OUT_ENDINGS)
        )
    return found
