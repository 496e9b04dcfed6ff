"""Ends this process when its parent ends, so that a killed engine leaves no language host behind."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Final

POLL_SECONDS: Final = 1.0


def end_with_parent() -> None:
    """Watch the parent from a thread.

    On Linux a pidfd is waited for: unlike a parent-death signal it speaks of the process and not of the thread that
    started us, of which the engine's runtime has many. Elsewhere the parent's id is looked at once a second.
    """
    parent = os.getppid()
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        descriptor = None
    threading.Thread(target=_watch, args=(parent, descriptor), daemon=True, name="parent-watch").start()


def _watch(parent: int, descriptor: int | None) -> None:
    if descriptor is not None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    else:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
    os._exit(0)
