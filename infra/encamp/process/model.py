"""Data of local processes: their specification and their outcome."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True)
class ProcessSpec:
    """A process as wished.

    Attributes:
        name: what messages call it.
        argv: program and arguments; the program is looked up on the PATH of ``env``.
        env: the whole environment, nothing is inherited.
        cwd: where it starts, None for the caller's directory.
        grace_seconds: how long it may take to end after SIGTERM before everything of it gets SIGKILL.
        pass_fds: file descriptors that it inherits under the same numbers.
        new_session: give it a session and process group of its own, so that a Ctrl-C of the terminal is ours alone.
        die_with_parent: have the kernel kill it when the thread that started it ends (Linux; elsewhere it stays).
        family: a mark that it shares with other processes and all that they start; ``tree.family`` finds them by it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    grace_seconds: float = 10.0
    pass_fds: tuple[int, ...] = ()
    new_session: bool = True
    die_with_parent: bool = True
    family: str | None = None


@dataclass(frozen=True)
class ProcessOutcome:
    """A process that has ended.

    Attributes:
        exit_code: its exit code, None when a signal ended it.
        signal: number of the signal that ended it, None when it exited.
        started_at: UTC.
        ended_at: UTC.
        peak_memory_bytes: highest resident memory of it or of any one child it waited for.
        cpu_seconds: user and system time of it and of the children it waited for.
    """

    name: str
    pid: int
    exit_code: int | None
    signal: int | None
    started_at: datetime
    ended_at: datetime
    peak_memory_bytes: int
    cpu_seconds: float

    @property
    def code(self) -> int:
        """One number, as a shell reports it: the exit code, or 128 and the signal's number."""
        return self.exit_code if self.exit_code is not None else 128 + (self.signal or 0)

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.exit_code == 0

    def __str__(self) -> str:
        if self.signal is None:
            return f"{self.name} exited with {self.exit_code}"
        known = {member.value: member.name for member in signal.Signals}
        return f"{self.name} was ended by {known.get(self.signal, f'signal {self.signal}')}"
