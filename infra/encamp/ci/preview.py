"""What the engine would do to a stack, asked of the engine itself.

A stack that the backend has is previewed there, which writes nothing. One that it does not have yet is previewed in a
backend of this machine that is thrown away, beside a stand-in of its environment that has the real one's outputs: so
nothing is made for a change that may never be merged.

Beliefs: preview-of-environment-is-quiet, preview-of-job-is-quiet.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.ci.steps import Step, Steps
from encamp.errors import EngineError
from encamp.run.command import SessionCommand, StackWorkspace, ToldStack
from encamp.run.workspace import make_workspace, project_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_BACKEND = "PULUMI_BACKEND_URL"
_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_CONFIG_PASSPHRASE_FILE": ""}


@dataclass(frozen=True)
class Previewed:
    """What a preview says.

    Attributes:
        steps: what would be done, a resource once, in the order of the engine's account.
        unchanged: how many resources would stay as they are.
        errors: why the preview failed, empty where it did not.
        warnings: what the program or a provider warns of.
    """

    steps: tuple[Step, ...]
    unchanged: int = 0
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Previews:
    """Previews of the stacks of one project folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = SessionCommand()

    def existing(self, stack: str, *, refresh: bool = False) -> Previewed:
        """Preview a stack of the backend; with ``refresh`` against what the cloud has, not what the state says."""
        return self._preview(stack, self._folder, {}, refresh=refresh)

    def new(
        self, stack: str, config: Mapping[str, Any], *, environment: str = "", outputs: Mapping[str, Any] | None = None
    ) -> Previewed:
        """Preview a stack that no backend has.

        Args:
            stack: its name.
            config: its config by key.
            environment: name of the stack that its program reads the outputs of, empty where it reads none.
            outputs: these outputs.

        Raises:
            EngineError: the backend of this machine cannot be made.
        """
        with tempfile.TemporaryDirectory(prefix="encamp-ci-") as scratch:
            root = Path(scratch)
            (root / "state").mkdir()
            variables = {_BACKEND: f"file://{root / 'state'}", **_PASSPHRASE}
            if environment:
                self._stand_in(environment, outputs or {}, root / "environment", variables)
            make_workspace(root / "stack", stack, dict(config))
            self._run(["stack", "init", stack, "--no-select"], root / "stack", variables)
            return self._preview(stack, root / "stack", variables, refresh=False)

    def _stand_in(self, stack: str, outputs: Mapping[str, Any], folder: Path, variables: Mapping[str, str]) -> None:
        make_workspace(folder, stack, {})
        self._run(["stack", "init", stack, "--no-select"], folder, variables)
        project = project_name()
        kind = "pulumi:pulumi:Stack"
        state = {
            "urn": f"urn:pulumi:{stack}::{project}::{kind}::{project}-{stack}",
            "custom": False,
            "type": kind,
            "outputs": dict(outputs),
        }
        file = folder / "state.json"
        file.write_text(json.dumps({"version": 3, "deployment": {"manifest": {}, "resources": [state]}}))
        self._run(["stack", "import", "--file", str(file), "--stack", stack], folder, variables)

    def _run(self, words: list[str], folder: Path, variables: Mapping[str, str]) -> None:
        from pulumi.automation import CommandError  # noqa: PLC0415 - slow to import

        try:
            self._command.run(words, str(folder), variables)
        except CommandError as error:
            raise EngineError(str(error).strip(), where=f"pulumi {' '.join(words[:2])}") from error

    def _preview(self, stack: str, folder: Path, variables: Mapping[str, str], *, refresh: bool) -> Previewed:
        from pulumi.automation import CommandError  # noqa: PLC0415

        workspace = StackWorkspace(work_dir=str(folder), pulumi_command=self._command, env_vars=dict(variables))
        found = Steps()
        errors: tuple[str, ...] = ()
        try:
            ToldStack(stack, workspace).preview(on_event=found, color="never", refresh=refresh)
        except CommandError as error:
            errors = tuple(found.errors) or (_last_words(str(error)),)
        return Previewed(tuple(found.steps()), found.unchanged, errors, tuple(found.warnings))


def _last_words(text: str) -> str:
    """What the engine says last: the rest is its progress."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.lstrip().startswith("error:")]
    return "\n".join(told or lines[-10:])
