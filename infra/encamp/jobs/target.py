"""The environment that a command or a call is about; where it is the sandbox's, the process enters the sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp.project import project_folder

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec


def environment_named(name: str) -> EnvironmentSpec:
    """The environment of a stack config: in the project of the current folder.

    Raises:
        UsageError: there is no project, or no such environment.
    """
    from encamp.spec.environment import load_environment  # noqa: PLC0415 - help pages need no models

    return load_environment(name, project_folder())


def enter(environment: str) -> EnvironmentSpec:
    """Read an environment's committed spec, and set the variables of the sandbox if it lives there.

    Raises:
        UsageError: there is no project, or no such environment.
        SandboxError: the sandbox is not there or does not run.
    """
    spec = environment_named(environment)
    enter_for(spec)
    return spec


def enter_for(spec: EnvironmentSpec) -> None:
    """Set the variables of the sandbox if an environment lives there.

    Raises:
        SandboxError: the sandbox is not there or does not run.
    """
    if spec.is_sandbox:
        _enter_sandbox()


def _enter_sandbox() -> None:
    from encamp.run.engine.workspace import STATE_VARIABLE  # noqa: PLC0415 - production needs no sandbox
    from encamp.sandbox import Sandbox  # noqa: PLC0415

    sandbox = Sandbox.opened()
    os.environ.update(sandbox.variables())
    os.environ.setdefault(STATE_VARIABLE, str(sandbox.root / "state"))
    if not _answers(sandbox.port):
        raise SandboxError("the sandbox does not run", where=str(sandbox.root), hint="encamp sandbox up")


def _answers(port: int) -> bool:
    import socket  # noqa: PLC0415

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False
