"""States that the engine cannot read: told from its other failures, named with their files, and set aside."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from encamp.backend import backend_url
from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.project import project_folder, project_name
from encamp.run.engine.run_errors import UnreadableStateError
from encamp.run.engine.state_files import state_files

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.run.engine.state_files import StateFiles

#: The engine's message for every state that it cannot load, for whatever reason.
_SAID = "failed to load checkpoint"


class UnreadableStates:
    """The unreadable states of one workspace's backend.

    Args:
        folder: the workspace's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def listed(self) -> list[str] | None:
        """Return the names of all stacks, if it is an unreadable state that fails the engine's listing; else None."""
        files = self._files()
        with suppress(OSError):
            if files is not None and any(map(files.trouble, names := files.stacks())):
                return names
        return None

    def error(self, where: str, said: str) -> UnreadableStateError | None:
        """Return the error of a stack's unreadable state, None if the engine fails for another reason.

        ``where`` is what it failed at, such as ``stack NAME``.
        """
        stack = where.removeprefix("stack ")
        files = self._files() if _SAID in said and stack != where else None
        with suppress(OSError, EngineError):
            if files is not None and (why := files.trouble(stack)) is not None:
                return UnreadableStateError(stack, files.place(stack), why)
        return None

    def set_aside(self, stack: str) -> str | None:
        """Rename a stack's unreadable state; where it is now, None if nothing was wrong with it.

        Raises:
            EngineError: it cannot be renamed.
        """
        files = self._files()
        try:
            return files.set_aside(stack) if files is not None else None
        except OSError as error:
            what = f"the unreadable state cannot be renamed: {error.strerror}"
            raise EngineError(what, where=f"stack {stack}", hint="rename it by hand, and run `encamp reap`") from error

    def _files(self) -> StateFiles | None:
        url = backend_url(self._folder, os.environ)
        return state_files(url, project_name(project_folder()), lambda: Storage(GoogleClient()))
