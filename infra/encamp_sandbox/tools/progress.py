"""Shows a build: on a terminal one line that changes, in a file or a pipeline a line now and then."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from encamp_sandbox.tools.build import BuildProgress

#: Short enough that no watcher of a pipeline takes the build for dead.
_QUIET_SECONDS = 15.0
_CLEAR = "\r\x1b[K"


class BuildLines:
    """Writes progress to a stream; ``close_line`` before anything else is written there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._open = False
        self._shown: dict[str, float] = {}

    def show(self, progress: BuildProgress) -> None:
        """Show a moment of a build."""
        minutes, seconds = divmod(int(progress.seconds), 60)
        line = f"{progress.tool:12} {minutes:2}:{seconds:02}  {progress.text}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"{_CLEAR}{line[:width]}")
            self._open = True
            if progress.done:
                self.close_line()
        elif self._due(progress):
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def close_line(self) -> None:
        """End the line that would have changed."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
        self._open = False

    def _due(self, progress: BuildProgress) -> bool:
        last = self._shown.get(progress.tool)
        if progress.done or last is None or progress.seconds - last >= _QUIET_SECONDS:
            self._shown[progress.tool] = progress.seconds
            return True
        return False
