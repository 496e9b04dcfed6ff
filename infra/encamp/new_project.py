"""Projects as ``encamp init`` writes them: the files come from ``templates/init`` and ``.github/workflows``.

The program and the workflows are encamp's own, unchanged. Nothing that exists is overwritten, and a project that cannot
be written whole is not written at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.installed import pinned_requirements
from encamp.plan.rendering import render_text
from encamp.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TEMPLATES = ("templates", "init")
_WORKFLOWS = (".github", "workflows")
_PROGRAM = "infra/__main__.py"
_RENDERED = ".j2"
#: Names that Git or a packager would take for their own, in the folder of templates.
_RENAMED = {"gitignore": ".gitignore"}
_LOCK = "requirements.txt"
_LOCK_HEAD = """\
# encamp and all that it needs, as they were where `encamp init` ran. `make setup` installs exactly these. For another
# version write it into the first line, drop the others, and let `pip freeze` or `uv pip compile` write them again.
"""
#: Pulumi's rule for names of projects: sdk/go/common/tokens/names.go.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
#: cloud.google.com/resource-manager/reference/rest/v3/projects: projectId.
_GOOGLE_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
PLACEHOLDER = "your-project-id"


def project_name_from(folder: Path) -> str:
    """Return a project's name made of the name of its folder."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-.")[:100] or "training"


def project_files(name: str, google_project: str = PLACEHOLDER) -> dict[str, str]:
    """Return the text of each file of a new project, by its path in the project.

    Args:
        name: of the Pulumi project.
        google_project: id of the Google Cloud project of the stacks ``production*``.

    Raises:
        UsageError: one of the two has not its form.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a project", where="--name", hint="letters, digits and ._- only")
    if not _GOOGLE_PROJECT.fullmatch(google_project):
        hint = "6 to 30 lowercase letters, digits and hyphens"
        raise UsageError(f"{google_project!r} is no project's id", where="--google-project", hint=hint)
    found = {_PROGRAM: resource(*_PROGRAM.split("/")).read_text(encoding="utf-8")}
    root = resource(*_TEMPLATES)
    for file in sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        path = file.relative_to(root).as_posix()
        if path.endswith(_RENDERED):
            text = render_text(f"init/{path}", name=name, google_project=google_project)
            found[path.removesuffix(_RENDERED)] = text
        else:
            found[_RENAMED.get(path, path)] = file.read_text(encoding="utf-8")
    for file in sorted(resource(*_WORKFLOWS).glob("*.yaml")):
        found["/".join((*_WORKFLOWS, file.name))] = file.read_text(encoding="utf-8")
    found[_LOCK] = _LOCK_HEAD + "\n".join(pinned_requirements()) + "\n"
    return found


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a new project; the folder may exist, and hold other files.

    Raises:
        UsageError: a file exists, or one cannot be written; then none of them is.
    """
    there = sorted(path for path in files if (folder / path).is_symlink() or (folder / path).exists())
    if there:
        hint = "move it away, or name another folder"
        raise UsageError(f"exists already, and is left alone: {', '.join(there)}", where=str(folder), hint=hint)
    made: list[Path] = []
    try:
        for path, text in files.items():
            _make_folders((folder / path).parent, made)
            with (folder / path).open("x", encoding="utf-8") as file:
                made.append(folder / path)
                file.write(text)
    except BaseException as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        if not isinstance(error, OSError):
            raise
        raise UsageError(f"cannot be written: {error.strerror}", where=str(error.filename or folder)) from error


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it that are missing, and note each."""
    for one in (*reversed(folder.parents), folder):
        if not one.exists():
            one.mkdir()
            made.append(one)
