"""Programs of this machine that bring up a stack, and their versions."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.findings import Finding, Grade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SECONDS = 30
#: The oldest CLI that these programs were tried with.
OLDEST_PULUMI = (3, 232, 0)
_SDKS = ("pulumi", "pulumi-gcp", "pulumi-kubernetes")
_AUTH_PLUGIN = "gke-gcloud-auth-plugin"


def _run(argv: list[str]) -> str | None:
    """Return a command's output, None if it fails or is not installed."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


@dataclass(frozen=True)
class Machine:
    """This machine as far as it is asked: its variables, its programs, and what they print."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    which: Callable[[str], str | None] = shutil.which
    run: Callable[[list[str]], str | None] = _run


def versions(machine: Machine) -> Iterator[Finding]:
    """Check Python, the SDKs, the Pulumi CLI, its language host, and how kubectl and the provider reach GKE."""
    python = ".".join(map(str, sys.version_info[:3]))
    sdks = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _SDKS)
    yield Finding("Python", Grade.OK, f"{python} with {sdks}")
    yield _pulumi(machine)
    yield _language_host(machine)
    if (found := machine.which(_AUTH_PLUGIN)) is not None:
        yield Finding("GKE credentials", Grade.OK, f"{_AUTH_PLUGIN} at {found}")
    else:
        advice = f"gcloud components install {_AUTH_PLUGIN}"
        yield Finding("GKE credentials", Grade.BAD, f"{_AUTH_PLUGIN} is not on PATH: no cluster can be reached", advice)


def _pulumi(machine: Machine) -> Finding:
    program = machine.which("pulumi")
    if program is None:
        return Finding("Pulumi", Grade.BAD, "the CLI is not on PATH", "https://www.pulumi.com/docs/install/")
    said = machine.run([program, "version"]) or ""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said)
    if numbers is None:
        return Finding("Pulumi", Grade.BAD, f"{program} does not say its version", "install it again")
    oldest = ".".join(map(str, OLDEST_PULUMI))
    if tuple(map(int, numbers.groups())) < OLDEST_PULUMI:
        return Finding("Pulumi", Grade.BAD, f"{said} at {program} is older than {oldest}", "install a newer one")
    return Finding("Pulumi", Grade.OK, f"{said} at {program}")


def _language_host(machine: Machine) -> Finding:
    """Check for the language host beside the engine and on PATH, where the engine looks for it."""
    name, program = "pulumi-language-python", machine.which("pulumi")
    beside = Path(program).resolve().parent / name if program else None
    found = machine.which(name) or (str(beside) if beside is not None and beside.is_file() else None)
    if found is None:
        text = f"{name} is neither on PATH nor beside the CLI"
        return Finding("language host", Grade.BAD, text, "install Pulumi from its own installer, which brings it")
    return Finding("language host", Grade.OK, found)
