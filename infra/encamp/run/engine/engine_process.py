"""Whether the engine that a lock names still runs on this machine."""

from __future__ import annotations

import time

import psutil

_LOCK_PATIENCE_SECONDS = 60


def has_ended(pid: int) -> bool:
    """Whether an engine of this machine has ended, which it is given a minute for."""
    for _ in range(_LOCK_PATIENCE_SECONDS):
        if not _is_engine(pid):
            return True
        time.sleep(1)
    return False


def _is_engine(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "pulumi" in process.name()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
