"""Locks of ports: what programs of ours agree on between choosing a port and listening on it.

The lock is an abstract socket on Linux: it has the scope of the ports themselves (a network namespace, all users), and
the kernel gives it back when its holder ends in whatever way. Elsewhere it is a locked file.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Protocol


class PortLock(Protocol):
    """Held until it is closed or its process ends."""

    def close(self) -> None:
        """Release the lock."""


def lock_port(port: int) -> PortLock | None:
    """Return the lock of a port; None if it is taken. It does not say whether the port can be bound."""
    return _abstract(port) if sys.platform == "linux" else _locked_file(port)


def _abstract(port: int) -> PortLock | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0encamp-port-{port}")
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return lock


def _locked_file(port: int) -> PortLock | None:
    import fcntl  # noqa: PLC0415 - not there on every system

    folder = Path(tempfile.gettempdir()) / f"encamp-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / str(port)).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
