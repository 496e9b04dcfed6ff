"""Where the engine finds a stack: the project for committed ones, a folder of the job for those encamp makes.

A job's folder is a Pulumi workspace of its own: a ``Pulumi.yaml`` of the same project that leads to the same program,
and the stack's config beside it. So nothing that the engine writes (a salt at ``stack init``, a deletion at ``stack
rm``) ever touches the project, and ``pulumi`` by hand works in that folder too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from encamp.errors import EngineError
from encamp.plan.rendering import to_json
from encamp.project import FILE, STACKS, find_project, project_folder, read_project
from encamp.spec.stack_files import stack_files

#: Names another folder for records and job folders.
STATE_VARIABLE = "ENCAMP_STATE_DIR"


def state_folder() -> Path:
    """Where records and job folders are: ``ENCAMP_STATE_DIR``, else ``.encamp`` of the project or of the cwd.

    A sandbox is a cloud of its own, so its jobs are kept with it: two sandboxes share no record, and one that is
    reset takes its jobs along.
    """
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given)
    return (find_project() or Path.cwd()) / ".encamp"


def make_workspace(folder: Path, stack: str, config: dict[str, Any]) -> Path:
    """Write a job's workspace and return its config file.

    ``config`` has keys such as ``encamp:job``; its values are JSON data.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    source = project_folder()
    settings = read_project(source)
    # Without it the folder is a workspace of the engine, and no project of encamp's: see ``encamp.project``.
    settings.pop("stackConfigDir", None)
    settings["main"] = os.path.relpath(source / settings.get("main", "."), folder)
    runtime = settings.get("runtime")
    options = (runtime.get("options") or {}) if isinstance(runtime, dict) else {}
    if "virtualenv" in options:
        environment = source / options["virtualenv"]
        if environment.is_dir():
            options["virtualenv"] = os.path.relpath(environment, folder)
        else:
            del options["virtualenv"]
    _write(folder / FILE, settings)
    file = folder / f"Pulumi.{stack}.yaml"
    kept: dict[str, Any] = {}
    if file.exists():
        # The salt that the engine put there opens this stack's secrets.
        kept = yaml.safe_load(file.read_text()) or {}
    _write(file, {**kept, "config": json.loads(json.dumps(config))})
    return file


def committed_config(stack: str) -> dict[str, Any] | None:
    """A stack's config as it is committed in the project, None where there is none.

    Raises:
        EngineError: the file is no YAML mapping.
    """
    file = project_folder() / STACKS / f"Pulumi.{stack}.yaml"
    if not file.is_file():
        return None
    try:
        content = yaml.safe_load(file.read_text())
        return dict(content.get("config") or {})
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise EngineError("the stack's config is no YAML mapping", where=str(file)) from error


def committed_stacks() -> list[str]:
    """Names of the stacks whose config is committed."""
    return list(stack_files(project_folder() / STACKS))


def _write(file: Path, content: dict[str, Any]) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        # As JSON, which readers of YAML take alike: `1e3` without quotes is a text to ours, a number to the engine's.
        stream.write(to_json(content) + "\n")
