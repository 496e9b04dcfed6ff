"""Log files of bounded size: a process writes to its file itself, and a file that grew too long is moved aside."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Together with the part moved aside, a process keeps at most twice this.
MAX_BYTES = 16 * 1024**2
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def open_log(path: Path, title: str) -> int:
    """Open a log for appending, with a line that says when a new process began; give the descriptor."""
    descriptor = os.open(path, _OPEN, 0o600)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    os.write(descriptor, f"--- {now} {title}\n".encode())
    return descriptor


def bound_log(path: Path, limit: int = MAX_BYTES) -> bool:
    """Move a log's content to ``<name>.1`` if there is more than ``limit`` bytes; whoever appends goes on.

    What is written between copying and emptying is lost; it is microseconds, once in many megabytes.
    """
    try:
        if path.stat().st_size <= limit:
            return False
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log without the supervisor's own; empty without any."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip() and not line.startswith("--- ")][-count:]
