"""Folders for unix sockets, whose paths must be short."""

from __future__ import annotations

import os
import tempfile
from typing import Final

#: sockaddr_un holds 108 bytes on Linux and 104 elsewhere, the final NUL included.
LONGEST_SOCKET_PATH: Final = 103
#: For a folder of its own below, and a socket's name in it.
_ROOM: Final = 44


def temporary_folder() -> str:
    """Return the folder for temporary files, or ``/tmp`` where the path of that one leaves a socket's name no room."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= LONGEST_SOCKET_PATH - _ROOM else "/tmp"  # noqa: S108 - folders below are made private
