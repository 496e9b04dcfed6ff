"""Process supervision by Linux alone: death with the parent, and a handle on a process.

Elsewhere each function says so by what it returns, and the caller goes a portable way: on macOS a process outlives a
supervisor that was killed with SIGKILL, and waiting takes a thread per process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def death_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """Return a function to run between fork and exec that binds the child to the thread that forks it; None off Linux.

    The kernel sends the signal when that *thread* ends, so processes are started from a thread that lives as long as
    they may: the one of the event loop.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()
    sent = int(number)

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, sent, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(128 + sent)

    return bind


def process_handle(pid: int) -> int | None:
    """Return a file descriptor that is readable once the child ``pid`` has ended, or None."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # before Linux 5.3, or a seccomp filter
        return None
