"""Who holds a lease: a process of a machine, told from a later process with the same number.

On the same machine a dead holder is seen at once; elsewhere only the lease's end tells.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil


def myself() -> str:
    """This process: host, boot, process namespace, number and start time, as JSON text."""
    return json.dumps(
        {
            "host": socket.gethostname(),
            "place": _place(),
            "pid": os.getpid(),
            "started": psutil.Process().create_time(),
        },
        sort_keys=True,
    )


def alive(holder: str, expires: float, now: float) -> bool:
    """Whether a lease still counts: not ended, and its holder not known to be dead."""
    if expires <= now:
        return False
    who = json.loads(holder)
    if who["place"] != _place():
        return True
    try:
        process = psutil.Process(who["pid"])
        return abs(process.create_time() - who["started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def words(holder: str) -> str:
    """For messages: ``process 12 on host``."""
    who = json.loads(holder)
    return f"process {who['pid']} on {who['host']}"


def _place() -> str:
    """What makes process numbers comparable: the same boot and the same process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{socket.gethostname()} {psutil.boot_time():.0f}"
