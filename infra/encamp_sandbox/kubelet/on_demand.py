"""A tool that the sandbox comes up without: built when the first pod needs it, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp.process import OutputLine, ProcessSpec, start
from encamp.resources import PACKAGE
from encamp_sandbox.tools import TOOLS
from encamp_sandbox.tools.catalog import build_folder, is_installed

if TYPE_CHECKING:
    from pathlib import Path

_LAST_LINES = 6


class OnDemandTool:
    """One tool of the catalog, by its name there."""

    def __init__(self, name: str) -> None:
        self._tool = TOOLS[name]
        self._building: asyncio.Task[None] | None = None

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self._tool.name} {self._tool.version}"

    @property
    def ready(self) -> bool:
        """Whether it has been built."""
        return is_installed(self._tool)

    async def folder(self) -> Path:
        """Return the folder of its binaries; builds it for everybody who waits. Raises SandboxError."""
        if not self.ready:
            if self._building is None or self._building.done():
                self._building = asyncio.create_task(self._build())
            await asyncio.shield(self._building)
        return build_folder(self._tool)

    async def _build(self) -> None:
        lines: deque[OutputLine] = deque(maxlen=_LAST_LINES)
        spec = ProcessSpec(
            name=f"build of {self._tool.name}",
            argv=(sys.executable, "-m", "encamp_sandbox.tools", self._tool.name),
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        )
        process = await start(spec, output=lines.append)
        outcome = await process.wait()
        if not outcome.ok:
            raise SandboxError(f"{self.title} could not be built: {' '.join(line.text for line in lines) or outcome}")
