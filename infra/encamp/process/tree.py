"""Which processes belong to a process that we started, and how all of them get a signal.

Three marks are looked at, since each is lost in some way: descent (lost when a parent ends), the session (lost by
setsid), and a variable of our own in the environment (lost by a program that clears it). A daemon that forks twice
and changes its session still carries the third.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psutil

#: Name of the variable whose value tells a process tree from all others.
MARK = "ENCAMP_PROCESS_TREE"
#: The same for several trees of one purpose.
FAMILY = "ENCAMP_PROCESS_FAMILY"


def members(leader: int, mark: str, *, leader_ended: bool) -> list[psutil.Process]:
    """Every living process of the tree that ``leader`` began.

    ``leader_ended`` says that the leader has been waited for, so that its number may mean another process by now.
    """
    everyone, parents = _everyone()
    own = os.getpid()
    found = {
        pid: process
        for pid, process in everyone.items()
        if pid not in (own, leader) and (_session(pid) == leader or _marked(process, MARK, mark))
    }
    if leader in everyone and not leader_ended:
        found[leader] = everyone[leader]
    return _with_descendants(found, everyone, parents)


def family(mark: str) -> list[psutil.Process]:
    """Every living process of a family but the caller: those that carry its mark, and what descends from them."""
    everyone, parents = _everyone()
    found = {pid: process for pid, process in everyone.items() if _marked(process, FAMILY, mark)}
    return [process for process in _with_descendants(found, everyone, parents) if process.pid != os.getpid()]


def _everyone() -> tuple[dict[int, psutil.Process], dict[int, int]]:
    """Every process of this machine by its number, and the numbers of their parents."""
    import psutil  # noqa: PLC0415 - it takes as long to import as ten processes to start, and is needed only later

    everyone = {process.pid: process for process in psutil.process_iter()}
    return everyone, {pid: _parent(process) for pid, process in everyone.items()}


def _with_descendants(
    found: dict[int, psutil.Process], everyone: dict[int, psutil.Process], parents: dict[int, int]
) -> list[psutil.Process]:
    """The living of ``found`` and of all that descend from them."""
    grown = True
    while grown:
        more = {pid: everyone[pid] for pid, parent in parents.items() if parent in found and pid not in found}
        found |= more
        grown = bool(more)
    return [process for process in found.values() if _alive(process)]


def send(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each; those that are gone, or whose number now means another process, are left out."""
    for process in processes:
        with contextlib.suppress(*_gone()):
            process.send_signal(number)


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except _gone():
        return 0


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _marked(process: psutil.Process, name: str, mark: str) -> bool:
    try:
        return process.environ().get(name) == mark
    except (*_gone(), OSError):
        return False


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != "zombie"
    except _gone():
        return False


def _gone() -> tuple[type[Exception], ...]:
    """What psutil says of a process that is no more, or not ours to look at."""
    import psutil  # noqa: PLC0415 - as above

    return (psutil.Error,)
