"""The Python that runs a program: that of the project's ``virtualenv``, as the official host has it.

Where that is the environment of this host itself, or the project names none, the program runs in this very process.
Another one gets a process of its own, which needs the package ``pulumi`` of that environment and nothing of encamp's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from encamp.resources import PACKAGE
from encamp_sandbox.language_host.runner import BAIL, NO_SDK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.language_host.program import ProgramRun

_OPTION: Final = "virtualenv"
_RUNNER: Final = Path(__file__).with_name("runner.py")


class VirtualenvError(Exception):
    """The project's virtual environment cannot run its program; says what to do."""


def virtualenv(root: str, options: Mapping[str, Any]) -> Path | None:
    """Return the virtual environment that a program wants; None if this process serves.

    Args:
        root: folder of the project's ``Pulumi.yaml``.
        options: ``runtime.options`` there.

    Raises:
        VirtualenvError: the folder that is named is no virtual environment.
    """
    named = options.get(_OPTION)
    if not named:
        return None
    folder = Path(root, str(named))
    if folder.resolve() == Path(sys.prefix).resolve():
        return None
    if not _python(folder).is_file():
        raise VirtualenvError(
            f"the `{_OPTION}` of Pulumi.yaml is {named!r}, and {folder} is no virtual environment; make it with "
            f"`python3 -m venv {folder}` and install what the project requires into it: "
            f"`{_python(folder)} -m pip install -r requirements.txt`"
        )
    return folder


def run_in(folder: Path, run: ProgramRun) -> bool:
    """Run a program by the Python of a virtual environment; False when it failed and the user was told.

    Raises:
        VirtualenvError: that Python cannot run it.
    """
    process = subprocess.Popen([str(_python(folder)), str(_RUNNER)], env=_environment(), stdin=subprocess.PIPE)
    process.communicate(json.dumps(dataclasses.asdict(run)).encode())
    if process.returncode == NO_SDK:
        raise VirtualenvError(
            f"the virtual environment {folder} has no package `pulumi`; install what the project requires into it: "
            f"`{_python(folder)} -m pip install -r requirements.txt`"
        )
    if process.returncode not in {0, BAIL}:
        raise VirtualenvError(f"{_python(folder)} has ended with {process.returncode}, see its words above")
    return process.returncode == 0


def site_packages(folder: Path) -> list[str]:
    """Return folders of a virtual environment where its packages are."""
    return [str(path) for path in sorted(folder.glob("lib*/python3*/site-packages"))]


def about(folder: Path) -> tuple[str, str]:
    """Return executable and version of a virtual environment's Python."""
    command = [str(_python(folder)), "-c", "import platform; print(platform.python_version())"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return str(_python(folder)), answer.stdout.strip()


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _environment() -> dict[str, str]:
    """Return this process's environment, less the path that leads to its own packages."""
    found = dict(os.environ)
    entries = found.pop("PYTHONPATH", "").split(os.pathsep)
    if kept := [entry for entry in entries if entry and Path(entry).resolve() != PACKAGE.parent]:
        found["PYTHONPATH"] = os.pathsep.join(kept)
    if sys.pycache_prefix is not None:
        found["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found
