"""Makes the committed stacks known to the sandbox's own state backend, so that `pulumi up -s STACK` finds them.

A committed config says what a stack is to be; that it exists stands in the backend, and a new sandbox has a new one.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import yaml

from encamp.errors import SandboxError
from encamp.project import STACKS, project_name
from encamp.spec.stack_files import stack_files
from encamp_sandbox.environment import variables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout


def make_stacks(layout: Layout, folder: Path) -> list[str]:
    """Make those of a project's folder that are missing; gives their names. A backend of the user's own is left alone.

    Raises:
        SandboxError: the engine refuses; shows its words.
    """
    values = variables(layout)
    if values["PULUMI_BACKEND_URL"] != f"file://{layout.pulumi_backend}":
        return []
    known = layout.pulumi_backend / ".pulumi" / "stacks" / project_name(folder)
    made: list[str] = []
    for stack in committed(layout.project, folder):
        if (known / f"{stack}.json").exists():
            continue
        ended = subprocess.run(
            [str(layout.bin / "pulumi"), "stack", "init", stack, "--no-select", "--non-interactive"],
            cwd=folder,
            env={**os.environ, **values},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise SandboxError(f"the stack cannot be made: {ended.stderr.strip()}", where=f"stacks/Pulumi.{stack}.yaml")
        made.append(stack)
    return made


def committed(project: str, folder: Path) -> Iterator[str]:
    """Names of the stacks in a Pulumi project's folder whose config says that they live in a Google Cloud project."""
    for name, file in stack_files(folder / STACKS).items():
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            # Whoever uses that stack is told what is wrong with its file; the sandbox comes up without it.
            continue
        config = content.get("config") if isinstance(content, dict) else None
        # With a secrets provider of its owner's it is made where that is; a passphrase would be written into the file.
        if isinstance(config, dict) and config.get("gcp:project") == project and "secretsprovider" not in content:
            yield name
