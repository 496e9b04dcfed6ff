"""Folders of the user's cache that are made once, whole or not at all, whoever asks for them at the same time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp_sandbox.tools.catalog import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTIAL = ".making-"


def pythons_folder() -> Path:
    """Return the folder of environments; it may be removed while no job runs."""
    return cache_folder().parent / "pythons"


def made_once(
    folder: Path,
    make: Callable[[Path], None],
    *,
    is_whole: Callable[[Path], bool] = Path.is_dir,
    keep: int | None = None,
) -> Path:
    """Make a folder if it is not there; others that ask for it meanwhile wait.

    Args:
        folder: below :func:`pythons_folder`.
        make: fills an empty folder, which is then renamed.
        is_whole: whether what is there may stay.
        keep: how many of its siblings stay, those used last; None for all.

    Raises:
        SandboxError: the cache cannot be written to.
    """
    try:
        if is_whole(folder):
            os.utime(folder)
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_whole(folder):
                shutil.rmtree(folder, ignore_errors=True)
                _make(folder, make)
                _prune(folder.parent, keep)
    except OSError as error:
        raise SandboxError(
            f"cannot make a Python environment: {error.strerror or error}",
            where=str(folder),
            hint="free some space there, or choose another folder by ENCAMP_CACHE_DIR",
        ) from error
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    for left in folder.parent.glob(f"{_PARTIAL}{folder.name}-*"):  # the lock is ours: nobody makes them any more
        shutil.rmtree(left, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{_PARTIAL}{folder.name}-", dir=folder.parent))
    try:
        make(partial)
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _prune(parent: Path, keep: int | None) -> None:
    """Remove what was used longest ago."""
    made = [entry for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    for folder in sorted(made, key=lambda entry: entry.stat().st_mtime)[: -keep if keep else 0]:
        shutil.rmtree(folder, ignore_errors=True)
