"""Checks that nothing depends on this machine: a reaper in a CI job or a pod needs a remote backend and record."""

from __future__ import annotations

import json
import os

from encamp.errors import UsageError
from encamp.project import project_folder
from encamp.run.engine.command import SessionCommand
from encamp.run.lifecycle.target import shared_record
from encamp.spec.environment import SANDBOX_PREFIX


def require_remote(project: str) -> None:
    """Refuse to work from files of this machine.

    Raises:
        UsageError: the environment is a sandbox, or the engine's backend or the record is local; says which.
        EngineError: the engine cannot be asked for its backend.
    """
    if project.startswith(SANDBOX_PREFIX):
        raise UsageError("a sandbox is of this machine only", where=project, hint="leave --remote out")
    if not shared_record():
        raise UsageError(
            "the record is a file of this machine",
            where="ENCAMP_RECORD_URL",
            hint="set it to a database that every driver writes to, such as postgresql://...",
        )
    backend = os.environ.get("PULUMI_BACKEND_URL") or _backend()
    if backend.startswith("file:"):
        raise UsageError(
            "the engine's backend is a folder of this machine",
            where="PULUMI_BACKEND_URL",
            hint="set it to a backend that every driver uses, such as gs://BUCKET",
        )


def _backend() -> str:
    """Return the backend that the engine is logged in to."""
    answer = SessionCommand().run(["whoami", "--json"], str(project_folder()), {}).stdout
    return str(json.loads(answer).get("url", ""))
