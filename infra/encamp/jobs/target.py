"""The environment that a command or a call is about; where it is the sandbox's, the process enters the sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import SandboxError, UsageError
from encamp.resources import repository

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec


def checkout() -> Path:
    """The checkout that holds the committed stacks.

    Raises:
        UsageError: there is none.
    """
    found = repository()
    if found is None:
        raise UsageError("environments are stacks of a checkout", hint="clone the project and run `encamp` there")
    return found


def environment_named(name: str) -> EnvironmentSpec:
    """The environment of a stack config: in the checkout, else in the working directory's project.

    Raises:
        UsageError: there is no such environment.
    """
    from encamp.spec.environment import load_environment  # noqa: PLC0415 - help pages need no models

    return load_environment(name, repository() or Path.cwd())


def enter(environment: str) -> EnvironmentSpec:
    """Read an environment's committed spec, and set the variables of the sandbox if it lives there.

    Raises:
        UsageError: there is no checkout, or no such environment.
        SandboxError: the sandbox is not there or does not run.
    """
    from encamp.spec.environment import load_environment  # noqa: PLC0415 - models are slow to import

    spec = load_environment(environment, checkout())
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
    from encamp.run.workspace import STATE_VARIABLE  # noqa: PLC0415 - production needs no sandbox
    from encamp.sandbox.environment import variables  # noqa: PLC0415
    from encamp.sandbox.layout import Layout  # noqa: PLC0415

    layout = Layout.open()
    os.environ.update(variables(layout))
    os.environ.setdefault(STATE_VARIABLE, str(layout.root / "state"))
    if not _answers(layout.ports.front):
        raise SandboxError("the sandbox does not run", where=str(layout.root), hint="encamp sandbox up")


def _answers(port: int) -> bool:
    import socket  # noqa: PLC0415

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False
