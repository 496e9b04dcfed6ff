"""The Pulumi project that a command works in: its stacks, its program, and the state that is kept beside them.

It is the nearest project of encamp's kind at or above the current folder, as with any Pulumi project. A project of
encamp's kind is a Python program whose stack configs are in ``stacks/``; other projects, and the workspaces that encamp
makes for jobs, are passed over. ``encamp init`` writes one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from encamp.errors import UsageError
from encamp.resources import repository

#: Names the project's folder for processes that run in another one, such as those of a sandbox.
FOLDER_VARIABLE = "ENCAMP_PROJECT_DIR"
FILE = "Pulumi.yaml"
#: Folder of the stack configs, ``stackConfigDir`` of the project.
STACKS = "stacks"


def find_project() -> Path | None:
    """Return the project's folder, or None.

    Outside every project it is the checkout that encamp itself runs from, if it does.

    Raises:
        UsageError: a ``Pulumi.yaml`` on the way up is no YAML mapping, or the variable names no project.
    """
    if given := os.environ.get(FOLDER_VARIABLE):
        named = Path(given).absolute()
        if not _is_project(named):
            raise UsageError("is no project of encamp's", where=f"{FOLDER_VARIABLE}={given}", hint="encamp init DIR")
        return named
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if _is_project(folder)), None) or repository()


def project_folder() -> Path:
    """Return the project's folder.

    Raises:
        UsageError: there is none.
    """
    found = find_project()
    if found is None:
        raise UsageError(
            f"there is no project here: no {FILE} with `stackConfigDir: {STACKS}` in this folder or above it",
            where=str(Path.cwd()),
            hint="change to the folder of your project, or write one with `encamp init DIR`",
        )
    return found


def read_project(folder: Path) -> dict[str, Any]:
    """Return the content of a project's ``Pulumi.yaml``.

    Raises:
        UsageError: it is no YAML mapping.
    """
    file = folder / FILE
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(file)) from error
    if not isinstance(content, dict):
        raise UsageError("is no YAML mapping", where=str(file), hint="write `name:`, `runtime:` and what else it needs")
    return content


def project_name(folder: Path) -> str:
    """Return the name of a project."""
    return str(read_project(folder)["name"])


def _is_project(folder: Path) -> bool:
    if not (folder / FILE).is_file():
        return False
    content = read_project(folder)
    runtime = content.get("runtime")
    language = runtime.get("name") if isinstance(runtime, dict) else runtime
    stacks = content.get("stackConfigDir")
    return language == "python" and isinstance(stacks, str) and Path(stacks) == Path(STACKS)
