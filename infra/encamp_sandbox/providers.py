"""The servers of the engine's types: the sandbox's own providers, or the official plugins if they are on PATH."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from encamp.errors import SandboxError, UsageError
from encamp_sandbox.layout import OFFICIAL, OURS

if TYPE_CHECKING:
    from encamp_sandbox.layout import SandboxConfig

#: Environment variable that decides, by package.
VARIABLES: Final = {"kubernetes": "ENCAMP_KUBERNETES_PROVIDER", "gcp": "ENCAMP_GCP_PROVIDER"}


def wanted(package: str) -> str:
    """Return who serves a package's types: the official plugin if it is on PATH, unless the user says else.

    Raises:
        UsageError: the user says something else than ``ours`` or ``official``.
        SandboxError: the official plugin is asked for and is not there.
    """
    variable, plugin = VARIABLES[package], f"pulumi-resource-{package}"
    chosen = os.environ.get(variable, "")
    if chosen not in ("", OURS, OFFICIAL):
        raise UsageError(f"{variable} is {chosen!r}", hint=f"{OURS} or {OFFICIAL}")
    found = shutil.which(plugin)
    if chosen == OFFICIAL and found is None:
        raise SandboxError(
            f"{variable} asks for the official plugin, but {plugin} is not on PATH",
            hint=f"put it there, or set {variable}={OURS}",
        )
    return chosen or (OFFICIAL if found else OURS)


def check_running(config: SandboxConfig) -> None:
    """Refuse another choice than that of a sandbox which is up.

    Raises:
        UsageError: the environment asks for another provider.
    """
    for package, variable in VARIABLES.items():
        asked, has = os.environ.get(variable), config.provider(package)
        if asked and asked != has:
            message = f"the sandbox is up with the {has} {package} provider"
            raise UsageError(message, where=variable, hint="encamp sandbox down, then up")
