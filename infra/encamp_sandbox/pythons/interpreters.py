"""Pythons of an image's version: those of this machine, and those that uv downloads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import SandboxError, UsageError
from encamp.spec.ai_platform import version_key
from encamp_sandbox.pythons.uv import interpreters_folder, run_program, run_uv

if TYPE_CHECKING:
    from collections.abc import Callable

#: The oldest Python that uv installs packages for, and the oldest that it can download.
_OLDEST, _OLDEST_DOWNLOADED = "3.6", "3.8"
_OTHER_MEANS = "install Python {version} by other means, or name its program by --python"
_OTHERS = "encamp sandbox images lists the runtime versions that can be brought"


def is_too_old(version: str) -> bool:
    """Whether uv installs no packages for a Python such as ``3.5``."""
    return version_key(version) < version_key(_OLDEST)


def obstacle(version: str) -> str:
    """Return why no Python of a version such as ``3.6`` can be had; empty if one can, as far as is known beforehand."""
    if is_too_old(version):
        return f"Python {version} is older than any that uv installs packages for"
    if version_key(version) < version_key(_OLDEST_DOWNLOADED) and at_hand(version) is None:
        return f"Python {version} is not on this machine, and uv downloads none older than {_OLDEST_DOWNLOADED}"
    return ""


def at_hand(version: str) -> str | None:
    """Return the program of a Python of this machine, or None; nothing is started."""
    return shutil.which(f"python{version}", path=_search_path(version))


def found_or_downloaded(version: str, tell: Callable[[str], None]) -> str:
    """Return the program of a Python of a version.

    Raises:
        SandboxError: none is on this machine, and none can be downloaded.
    """
    found = _found(version) if not is_too_old(version) else None
    if found is not None:
        return found
    if problem := obstacle(version):
        hint = _OTHERS if is_too_old(version) else _OTHER_MEANS
        raise SandboxError(problem, hint=hint.format(version=version))
    hint = _OTHER_MEANS.format(version=version)
    tell(f"downloading Python {version}")
    try:
        run_uv(["python", "install", version])
    except SandboxError as error:
        problem = f"Python {version} is not on this machine and cannot be downloaded: {error.what}"
        raise SandboxError(problem, hint=hint) from error
    found = _found(version)
    if found is None:
        raise SandboxError(f"Python {version} was downloaded and is not found", hint=hint)
    return found


def version_and_prefix(program: str, wanted: str) -> tuple[str, str]:
    """Return a Python's full version, and the folder that it was installed to.

    Raises:
        UsageError: it is of another version than the wanted one.
        SandboxError: it does not run.
    """
    code = "import platform, sys; print(platform.python_version()); print(sys.base_prefix)"
    version, prefix = run_program([program, "-c", code], f"{program} does not run").splitlines()
    if version.split(".")[:2] != wanted.split("."):
        raise UsageError(f"{program} is Python {version}; the image has {wanted}", where="--python")
    return version, prefix


def _found(version: str) -> str | None:
    try:
        return run_uv(["python", "find", "--no-python-downloads", "--no-project", version], path=_search_path(version))
    except SandboxError:
        return None


def _search_path(version: str) -> str:
    """Return PATH behind folders of uv's and pyenv's Pythons; pyenv's own programs only run with a chosen version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installs = [
        *sorted(interpreters_folder().glob(f"cpython-{version}.*"), reverse=True),
        *sorted((pyenv / "versions").glob(f"{version}.*"), reverse=True),
    ]
    usual = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [folder for folder in usual if Path(folder) != pyenv / "shims"]
    return os.pathsep.join([*(str(install / "bin") for install in installs), *others])
