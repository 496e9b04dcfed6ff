"""Previews of stacks, by the engine itself.

A stack is copied into a backend of this machine that is thrown away, beside a copy of its environment, and previewed
there. So nothing is written where the real one lies, nothing is made for a change that may never be merged, and the key
of the stack's secrets is not needed (``encrypted.py``). Who has the key can preview the stack where it lies.

Beliefs: preview-of-environment-is-quiet, preview-of-job-is-quiet.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.ci.encrypted import NOT_COMPARED, PLACEHOLDER, encrypted_inputs, readable_config, with_placeholders
from encamp.ci.steps import Step, Steps
from encamp.errors import EngineError
from encamp.run.engine.command import SessionCommand, StackWorkspace, ToldStack
from encamp.run.engine.workspace import make_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

_BACKEND = "PULUMI_BACKEND_URL"
_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_CONFIG_PASSPHRASE_FILE": ""}


@dataclass(frozen=True)
class Previewed:
    """The result of a preview.

    Attributes:
        steps: what would be done, a resource once, in the order of the engine's account.
        unchanged: how many resources would stay as they are.
        errors: why the preview failed, empty if it did not.
        warnings: what the program or a provider warns of.
    """

    steps: tuple[Step, ...]
    unchanged: int = 0
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Copied:
    """A stack that is copied into another backend.

    Attributes:
        name: the stack's name.
        config: its config by key, encrypted values as they are committed.
        state: its deployment as an export has it, None if no backend has the stack.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None


class Previews:
    """Previews of the stacks of one project folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = SessionCommand()

    def existing(self, stack: str, *, refresh: bool = False) -> Previewed:
        """Preview a stack where it lies, which takes its key; with ``refresh`` against what the cloud has."""
        return self._preview(stack, self._folder, {}, refresh=refresh)

    def apart(self, stack: Copied, environment: Copied | None = None, *, refresh: bool = False) -> Previewed:
        """Preview a copy of a stack in a backend of this machine that is thrown away; needs no key of the stack.

        Args:
            stack: the stack with its config, and its state where a backend has it.
            environment: the stack that its program reads the outputs of; None if it reads none.
            refresh: compare with what the cloud has, not with what the state says.

        Raises:
            EngineError: the backend of this machine cannot be made.
        """
        with tempfile.TemporaryDirectory(prefix="encamp-ci-") as scratch:
            root = Path(scratch)
            (root / "state").mkdir()
            variables = {_BACKEND: f"file://{root / 'state'}", **_PASSPHRASE}
            if environment is not None:
                self._copy(environment, root / "environment", variables)
            self._copy(stack, root / "stack", variables)
            return self._preview(stack.name, root / "stack", variables, refresh=refresh)

    def _copy(self, stack: Copied, folder: Path, variables: Mapping[str, str]) -> None:
        config, secrets = readable_config(stack.config)
        uncompared = encrypted_inputs(stack.state or {})
        if uncompared:
            config[NOT_COMPARED] = uncompared
        make_workspace(folder, stack.name, config)
        self._run(["stack", "init", stack.name, "--no-select"], folder, variables)
        for path in secrets:
            words = ["config", "set", "--secret", "--path", "--stack", stack.name, path]
            self._run(words, folder, variables, PLACEHOLDER)
        if stack.state is None:
            return
        exported = json.loads(self._run(["stack", "export", "--stack", stack.name], folder, variables))
        keys = {key: value for key, value in exported["deployment"].items() if key == "secrets_providers"}
        file = folder / "state.json"
        file.write_text(json.dumps({**exported, "deployment": {**with_placeholders(stack.state), **keys}}))
        self._run(["stack", "import", "--file", str(file), "--stack", stack.name], folder, variables)

    def _run(self, words: list[str], folder: Path, variables: Mapping[str, str], given: str | None = None) -> str:
        from pulumi.automation import CommandError  # noqa: PLC0415 - slow to import

        try:
            return self._command.run(words, str(folder), variables, given=given).stdout
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
    """Return the engine's last messages: the rest is its progress."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.lstrip().startswith("error:")]
    return "\n".join(told or lines[-10:])
