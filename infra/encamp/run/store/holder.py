"""Holders of leases: a machine's process, distinct from a later process with the same number.

On the same machine a dead holder is seen at once; elsewhere only the lease's end tells.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import psutil


def myself() -> str:
    """Return this process as JSON text: host, boot, process namespace, number and start time."""
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
    who = _read(holder)
    if who["place"] != _place():
        return True
    try:
        process = psutil.Process(who["pid"])
        return abs(process.create_time() - who["started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def is_here(holder: str) -> bool:
    """Whether a holder is, or was, a process of this boot of this machine."""
    return bool(_read(holder)["place"] == _place())


def words(holder: str) -> str:
    """Return a holder in words: ``process 12 on host``."""
    who = _read(holder)
    return f"process {who['pid']} on {who['host']}"


def host_and_place(holder: str) -> tuple[str, str]:
    """Return the holder's machine, and what makes its process numbers comparable."""
    who = _read(holder)
    return str(who["host"]), str(who["place"])


def _read(holder: str) -> dict[str, Any]:
    """Return a holder's fields. One that cannot be read is of some other machine: only the end of its lease tells."""
    unknown: dict[str, Any] = {"host": "an unknown machine", "place": "", "pid": 0, "started": 0.0}
    try:
        return {**unknown, **json.loads(holder)}
    except (ValueError, TypeError):
        return unknown


def _place() -> str:
    """Return the scope in which process numbers are comparable: the boot and the process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{socket.gethostname()} {psutil.boot_time():.0f}"
