"""uv, as the sandbox runs it: with the package index that the owner of this machine configured for pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp.extras import install_line
from encamp.redaction import redacted
from encamp_sandbox.outbound.owner import pip_setting
from encamp_sandbox.pythons.cache import pythons_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SECONDS = 1800
_LAST_LINES = 3
_DECORATION = re.compile(r"^[^\x21-\x7e]+")


def run_uv(arguments: Sequence[str], *, path: str | None = None) -> str:
    """Run uv to its end; what it prints.

    Args:
        arguments: of uv; nothing secret, since other users of the machine read them.
        path: PATH of it, this process's own where none is given.

    Raises:
        SandboxError: uv is not installed, or fails; with its last lines.
    """
    variables = {**_index(os.environ), **os.environ, "UV_PYTHON_INSTALL_DIR": str(interpreters_folder())}
    variables.pop("VIRTUAL_ENV", None)
    if path is not None:
        variables["PATH"] = path
    return run_program([_program(), *arguments], f"uv {arguments[0]} failed", variables)


def interpreters_folder() -> Path:
    """Return the folder of the Pythons that uv downloads for the sandbox."""
    return pythons_folder() / "interpreters"


def run_program(command: Sequence[str], what: str, variables: Mapping[str, str] | None = None) -> str:
    """Run a program in no project's folder; what it prints.

    Args:
        command: the program and its arguments.
        what: begins the message of a failure.
        variables: its environment, this process's own where none is given.

    Raises:
        SandboxError: it cannot be started, fails or takes too long.
    """
    try:
        ended = subprocess.run(
            command, env=variables, text=True, capture_output=True, timeout=_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{what}: {error}") from error
    if ended.returncode != 0:
        lines = [_DECORATION.sub("", line) for line in ended.stderr.splitlines() if line.strip()]
        raise SandboxError(redacted(f"{what}: {'; '.join(lines[-_LAST_LINES:])}"))
    return ended.stdout.strip()


def _program() -> str:
    if importlib.util.find_spec("uv") is not None:
        from uv import find_uv_bin  # noqa: PLC0415 - an extra brings it

        return str(find_uv_bin())
    found = shutil.which("uv")
    if found is None:
        raise SandboxError("uv is not installed, which makes these environments", hint=install_line("trainer"))
    return found


def _index(variables: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings as uv's variables; those that the user has set win."""
    found = {
        "UV_DEFAULT_INDEX": pip_setting(variables, "index-url"),
        "UV_INDEX": " ".join(pip_setting(variables, "extra-index-url").split()),
        "UV_FIND_LINKS": ",".join(pip_setting(variables, "find-links").split()),
        "SSL_CERT_FILE": pip_setting(variables, "cert"),
    }
    return {name: value for name, value in found.items() if value}
