"""Reads the files of a trainer folder, and nothing outside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.packaging.wheel import MAXIMUM_BYTES, PACKAGE_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "node_modules", "venv"})
_LEFT_OUT_ENDINGS = (".pyc", ".pyo", ".swp", "~")
_MOST_FILES = 5000
#: Limits of a folder with a build file; the build gets a copy of it.
_SOURCE_BYTES = 256 * 1024 * 1024
_MOST_SOURCE_FILES = 20_000


def read_files(folder: Path, *, ending: str = "") -> dict[str, bytes]:
    """Return files of a package by their path inside it, with ``/``; only those whose names end in ``ending``.

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
            raise PlanError(f"the link {path.relative_to(root)} leads out of the package", where=PACKAGE_PATH)
        if not target.is_file() or not path.name.endswith(ending):
            continue
        size += target.stat().st_size
        if size > MAXIMUM_BYTES or len(files) >= _MOST_FILES:
            raise _too_much("the package", _MOST_FILES, MAXIMUM_BYTES)
        files[path.relative_to(root).as_posix()] = target.read_bytes()
    return dict(sorted(files.items()))


def read_source(root: Path, package: Path) -> dict[str, tuple[bytes, int]]:
    """Return the project's files that a build of ``package`` sees: content and mode (0o644 or 0o755) by path.

    Left out beside the package: hidden files, caches, environments, what earlier builds left, and links that lead
    away. Inside the package the rules of :func:`read_files` hold.

    Raises:
        PlanError: see there; or the folder holds more than sources.
    """
    root, package = root.resolve(), package.resolve()
    inside = read_files(package)
    found = {f"{package.name}/{path}": (content, _mode(package / path)) for path, content in inside.items()}
    size = sum(len(content) for content, _ in found.values())
    for path in _walk(root, leave=(package, *_left_by_builds(root)), links_to_folders=False):
        if not path.resolve().is_relative_to(root) or not path.is_file():
            continue
        size += path.stat().st_size
        if size > _SOURCE_BYTES or len(found) >= _MOST_SOURCE_FILES:
            raise _too_much(f"the folder of the build file ({root.name})", _MOST_SOURCE_FILES, _SOURCE_BYTES)
        found[path.relative_to(root).as_posix()] = (path.read_bytes(), _mode(path))
    return dict(sorted(found.items()))


def _too_much(what: str, files: int, size: int) -> PlanError:
    limit = f"{files} files and {size // 2**20} MiB"
    return PlanError(f"{what} has more than {limit}", where=PACKAGE_PATH, hint="keep data in a bucket")


def _mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def _left_by_builds(root: Path) -> list[Path]:
    """Return ``build`` and ``dist`` unless they are packages, and egg-infos.

    They would find their way into the archive.
    """
    folders = [root / name for name in ("build", "dist") if not (root / name / "__init__.py").exists()]
    return [*folders, *root.glob("*.egg-info")]


def _walk(root: Path, *, leave: Iterable[Path] = (), links_to_folders: bool = True) -> list[Path]:
    """Return files below a folder, sorted.

    Args:
        root: where to begin.
        leave: folders that are not entered.
        links_to_folders: refuse them; else they are passed over.
    """
    found: list[Path] = []
    left = set(leave)
    for parent, folders, names in os.walk(root, followlinks=False):
        here = root / os.path.relpath(parent, root)
        if links_to_folders and (link := next((name for name in folders if (here / name).is_symlink()), None)):
            raise PlanError(f"{link} is a link to a folder; a package holds its own files", where=PACKAGE_PATH)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT_OUT_FOLDERS and not name.startswith(".") and here / name not in left
        )
        found.extend(
            here / name for name in sorted(names) if not name.startswith(".") and not name.endswith(_LEFT_OUT_ENDINGS)
        )
    return found
