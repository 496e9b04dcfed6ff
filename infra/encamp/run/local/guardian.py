"""A guardian that ends a run's processes when the command itself is killed.

A small process, forked before anything else and in a session of its own, reads a pipe that only the command writes to.
When the pipe ends without a farewell the command is dead, and everything that carries the run's mark is killed. On
Linux the kernel kills the replicas themselves already then; what they started is left to the guardian. It needs fork
and to see other processes' environments, as Linux and macOS allow a user.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from typing import TYPE_CHECKING

from encamp.process import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAREWELL = b"\n"
#: Seconds for which it looks for processes that are started while others are killed.
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_QUIET_ROUNDS = 3


@contextlib.contextmanager
def guarded() -> Iterator[str]:
    """Yield a family's mark; all of the family is killed when this process ends inside the block.

    Enter it before any thread is started and before anything is opened that must end with this process.
    """
    family = secrets.token_hex(16)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(write_end)
            _guard(read_end, family)
            code = 0
        finally:
            os._exit(code)
    os.close(read_end)
    try:
        yield family
    finally:
        with contextlib.suppress(OSError):
            os.write(write_end, _FAREWELL)
        os.close(write_end)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _guard(read_end: int, family: str) -> None:
    """Wait for the command's end as the guardian process, and kill the family unless it said farewell."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Nobody may wait for a pipe's end because of us.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.chdir("/")
    if os.read(read_end, 1) != _FAREWELL:
        _kill(family)


def _kill(family: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    quiet = 0
    while quiet < _QUIET_ROUNDS and time.monotonic() < deadline:
        left = tree.family(family)
        tree.send(left, signal.SIGKILL)
        quiet = 0 if left else quiet + 1
        time.sleep(_POLL_SECONDS)
