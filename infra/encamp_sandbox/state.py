"""The supervisor's record of its processes, for everybody else to read.

``run/state.json`` is replaced whole at every change. A process is named by its id and its creation time, so that an id
that the system gave to somebody else in between is never taken for ours, nor ended.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from encamp_sandbox.layout import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout

#: In the environment of every process of a sandbox: its folder. Programs of users do not carry it.
MARK = "ENCAMP_SANDBOX_PROCESS"
WAITING, STARTING, READY, RESTARTING, FAILING, STOPPED = (
    "waiting",
    "starting",
    "ready",
    "restarting",
    "failing",
    "stopped",
)
#: The clock of a process's creation is read in ticks of a hundredth of a second.
_SAME_SECONDS = 0.05
_LOCK_POLL_SECONDS = 0.2


@dataclasses.dataclass
class ProcessState:
    """One process of the sandbox.

    Attributes:
        state: ``waiting`` for what it needs, ``starting``, ``ready``, ``restarting`` after an end, ``failing`` when
            it ended again and again (it is still tried, ever more slowly), ``stopped`` on purpose.
        pid: of its last start, 0 before the first.
        created: creation time of that process, seconds since the epoch.
        since: when this state began, seconds since the epoch.
        starts: how often it was started.
        message: how it ended last, or why it does not start.
    """

    state: str = WAITING
    pid: int = 0
    created: float = 0.0
    since: float = 0.0
    starts: int = 0
    message: str = ""


@dataclasses.dataclass
class SandboxState:
    """The supervisor and all its processes by name; ``down_at`` is set when it ended on purpose."""

    pid: int
    created: float
    started: float
    processes: dict[str, ProcessState]
    down_at: float | None = None

    @property
    def all_ready(self) -> bool:
        """Whether everything answers."""
        return all(process.state == READY for process in self.processes.values())


def write_state(layout: Layout, state: SandboxState) -> None:
    """Replace the file."""
    write_private(layout.state_file, json.dumps(dataclasses.asdict(state), indent=1) + "\n")


def read_state(layout: Layout) -> SandboxState | None:
    """Return the last written state; None if none can be read."""
    try:
        data: dict[str, Any] = json.loads(layout.state_file.read_text(encoding="utf-8"))
        processes = {name: ProcessState(**process) for name, process in data.pop("processes").items()}
        return SandboxState(processes=processes, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def is_alive(pid: int, created: float) -> bool:
    """Whether the process of this id is still the one that was created then."""
    return find(pid, created) is not None


def find(pid: int, created: float) -> psutil.Process | None:
    """Return the process of this id if it is still the one that was created then."""
    if not pid:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < _SAME_SECONDS and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if same else None


def creation_time(pid: int) -> float:
    """Return creation time of a living process, 0 if it is gone already."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def survivors(layout: Layout) -> list[psutil.Process]:
    """List every living process of this sandbox: those that carry its mark, and what they started."""
    found: dict[int, psutil.Process] = {}
    root = str(layout.root)
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(MARK) != root:
                continue
            for member in (process, *process.children(recursive=True)):
                if member.status() != psutil.STATUS_ZOMBIE:
                    found[member.pid] = member
        except psutil.Error:
            continue  # another user's, or gone: neither is ours
    return list(found.values())


@contextmanager
def lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock file; ``waiting`` is told once when somebody else holds it, and without it that is an error.

    Raises:
        BlockingIOError: somebody else holds it and ``waiting`` is None.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise
            waiting()
            while True:
                time.sleep(_LOCK_POLL_SECONDS)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    continue
        yield
