"""A job's own stack: its workspace, and how the engine brings it up, whether a driver begins with it or goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from encamp.errors import EngineError
from encamp.redaction import holds_secret
from encamp.run.engine.workspace import make_workspace
from encamp.run.results.receipt import spec_hash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.run.engine.job_engine import JobEngine
    from encamp.run.store.intent import Intent

#: Key of the config by which a job's program finds its environment.
_ENVIRONMENT = "encamp:environmentStack"


@dataclass(frozen=True)
class JobStack:
    """The stack of one job.

    Attributes:
        folder: of its workspace.
        job: the Job resource as data.
        job_folder: folder that its ``encamp.packagePath`` is relative to, None if it came from no file.
        kubeconfig: by which everybody reaches the environment's cluster.
        reached: by which this process does.
        check: raises where the job is another driver's, or was cancelled.
    """

    intent: Intent
    engine: JobEngine
    folder: Path
    job: dict[str, Any]
    job_folder: Path | None
    kubeconfig: str
    reached: str
    check: Callable[[], None]

    def write_workspace(self) -> None:
        """Write the workspace with the stack's config; secrets are not in it."""
        make_workspace(self.folder, self.intent.stack, self._config())

    def restore_workspace(self) -> None:
        """Make sure that there is a workspace: the one that an earlier driver left here, else one from the record.

        Raises:
            EngineError: the record holds the job without its secrets, and no workspace is here.
        """
        if self._has_workspace():
            return
        if spec_hash(self.job) != self.intent.spec_hash:
            raise EngineError(
                "the record holds the job without its secrets, and what its first driver had is not on this machine",
                where=self.intent.job_id,
                hint="submit the job again under another id",
            )
        self.write_workspace()

    def up(self) -> None:
        """Create the stack if need be, and what its program declares; goes on from the stack's state.

        Raises:
            EncampError: it failed.
        """
        stack = self.intent.stack
        self.engine.create(stack)
        if holds_secret(self.job):
            self.engine.set_secret(stack, "encamp:job", json.dumps(self.job))
        self.check()
        self.engine.up(stack)
        if self.reached != self.kubeconfig:
            # A pod's own way to its cluster is nobody else's.
            self.engine.reach(stack, self.kubeconfig)

    def _has_workspace(self) -> bool:
        """Whether a driver has written the stack's whole config here, with what only its own files may hold."""
        try:
            config = yaml.safe_load((self.folder / f"Pulumi.{self.intent.stack}.yaml").read_text(encoding="utf-8"))
            return _ENVIRONMENT in config["config"] and (self.folder / "Pulumi.yaml").exists()
        except (OSError, yaml.YAMLError, KeyError, TypeError):
            return False

    def _config(self) -> dict[str, Any]:
        intent = self.intent
        return {
            **({"encamp:jobFolder": str(self.job_folder)} if self.job_folder is not None else {}),
            "gcp:project": intent.project,
            # Rights of jobs do not reach to listing regions, of which the provider would warn (region-validation).
            "gcp:skipRegionValidation": "true",
            _ENVIRONMENT: intent.environment,
            **({} if holds_secret(self.job) else {"encamp:job": self.job}),
            "encamp:checked": "true",
            "encamp:name": intent.name,
            "encamp:deadline": str(int(intent.deadline)),
        }
