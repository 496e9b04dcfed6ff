"""The tree of processes that descend from one that we started, and signals to all of them.

Three marks are looked at, since each is lost in some way: descent (lost when a parent ends), the session (lost by
setsid), and a variable of our own in the environment (lost by a program that clears it). A daemon that forks twice and
changes its session still carries the third.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psutil

#: Name of the variable whose value tells a process tree from all others.
MARK = "ENCAMP_PROCESS_TREE"
#: The same for several trees of one purpose.
FAMILY = "ENCAMP_PROCESS_FAMILY"


class _Picture:
    """Every process of this machine as it was once.

    Attributes:
        begun: when the first of them was looked at, by the monotonic clock.
    """

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - it takes as long to import as ten processes to start, and is needed only later

        self.begun = time.monotonic()
        self.processes = {process.pid: process for process in psutil.process_iter()}
        self.parents = {pid: _parent(process) for pid, process in self.processes.items()}
        self.sessions = {pid: _session(pid) for pid in self.processes}
        self.marks = {pid: _marks(process) for pid, process in self.processes.items()}

    def with_descendants(self, found: Iterable[int]) -> list[psutil.Process]:
        """Return those of these numbers and of all that descend from them that live now, the caller left out."""
        known = set(found)
        grown = True
        while grown:
            more = {pid for pid, parent in self.parents.items() if parent in known and pid not in known}
            known |= more
            grown = bool(more)
        return [self.processes[pid] for pid in known - {os.getpid()} if _alive(self.processes[pid])]


_latest: list[_Picture] = []


def _picture(since: float) -> _Picture:
    """Return the latest picture if it was begun at or after ``since``, else a new one."""
    if not _latest or _latest[0].begun < since:
        _latest[:] = [_Picture()]
    return _latest[0]


def members(leader: int, mark: str, *, leader_ended: bool, since: float | None = None) -> list[psutil.Process]:
    """Return every living process of the tree that ``leader`` began.

    Args:
        leader: its number.
        mark: value of ``MARK``.
        leader_ended: whether it has been waited for, so that its number may mean another process by now.
        since: by the monotonic clock: what was seen of this machine from then on will do, so that who asks about many
            trees looks only once. With ``leader_ended`` it must lie behind the leader's end: a tree that has nobody
            then has nobody any more. None: from now on.
    """
    picture = _picture(time.monotonic() if since is None else since)
    found = {
        pid
        for pid, (own_mark, _) in picture.marks.items()
        if pid != leader and (picture.sessions[pid] == leader or own_mark == mark)
    }
    if leader in picture.processes and not leader_ended:
        found.add(leader)
    return picture.with_descendants(found - {os.getpid()})


def family(mark: str) -> list[psutil.Process]:
    """Return every living process of a family but the caller.

    Those that carry its mark, and what descends from them.
    """
    picture = _picture(time.monotonic())
    return picture.with_descendants(pid for pid, (_, own_family) in picture.marks.items() if own_family == mark)


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


def _marks(process: psutil.Process) -> tuple[str | None, str | None]:
    """Return a process' values of ``MARK`` and ``FAMILY``."""
    try:
        environ = process.environ()
    except (*_gone(), OSError):
        return None, None
    return environ.get(MARK), environ.get(FAMILY)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != "zombie"
    except _gone():
        return False


def _gone() -> tuple[type[Exception], ...]:
    """Return psutil's errors for a process that is gone, or not ours to look at."""
    import psutil  # noqa: PLC0415 - as for pictures

    return (psutil.Error,)
