"""Drivers that no terminal belongs to: how they are started, and how they tell that a job is theirs.

A detached driver is the same command in a session of its own. Until the job is accepted it writes where its parent
writes, so that what is wrong is read where it was asked for; from then on all it says is in ``driver.log`` of the job's
folder, its parent hears the job's id through a pipe and ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import EngineError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

#: In a job's folder: what its driver says to people, a line each with its time in UTC.
DRIVER_LOG = "driver.log"
#: Names the descriptor by which a detached driver tells its parent of the job.
_READY = "ENCAMP_DRIVER_READY"
#: Names the log of a detached driver that takes a job over which has one.
_LOG = "ENCAMP_DRIVER_LOG"
_STDOUT, _STDERR = 1, 2


@dataclass(frozen=True)
class Started:
    """The result of starting a detached driver: the accepted job's id, or the exit code with which it ended before.

    ``process`` is the driver's process number.
    """

    job_id: str | None
    exit_code: int
    process: int


@dataclass(frozen=True)
class Parent:
    """The process that waits until this one has a job; only a detached driver has one."""

    descriptor: int

    @classmethod
    def waiting(cls) -> Parent | None:
        """Return the parent of this process, None if it is a command like any other. Answers once."""
        text = os.environ.pop(_READY, "")
        if not text.isdecimal():
            return None
        os.set_inheritable(int(text), False)
        return cls(int(text))

    def release(self, job_id: str, log: Path) -> None:
        """Write into ``log`` from now on, and let the parent go; one that is gone already is no error."""
        _write_to(log)
        with suppress(OSError):
            os.write(self.descriptor, json.dumps({"job": job_id}).encode())
        os.close(self.descriptor)


def own_log() -> Path | None:
    """Return the log of this process where it adopts a job in a session of its own, else None. Answers once."""
    text = os.environ.pop(_LOG, "")
    return Path(text) if text else None


def start_driver(words: Sequence[str]) -> Started:
    """Start ``encamp run`` with these words, and return when its job is accepted or it has ended.

    What it says until then goes to stderr. SIGINT and SIGTERM meanwhile are passed on to it as SIGINT.

    Raises:
        EngineError: it was killed.
    """
    reading, writing = os.pipe()
    try:
        process = _start(["run", *words], {_READY: str(writing)}, output=_STDERR, keep=(writing,))
    finally:
        os.close(writing)
    with _passing_on(process), os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
        if told:
            let_go(process)
            return Started(json.loads(told)["job"], ExitCode.OK, process.pid)
        code = process.wait()
    if code < 0:
        name = signal.Signals(-code).name
        raise EngineError(f"the driver was ended by {name} before the job was accepted", hint="submit it again")
    return Started(None, code, process.pid)


def start_adopter(job_id: str, environment: str, log: Path) -> subprocess.Popen[bytes]:
    """Start what takes a job without a living driver over and brings it to its end; it says so in ``log``."""
    return _start_quietly(["reap", "--job", job_id, "--wait", "--environment", environment], log)


def start_submitted(job_id: str, environment: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the driver of a job that was handed in and waits; all that it says goes to ``log``."""
    return _start_quietly(["drive", "--submitted", job_id, "--environment", environment], log)


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process no more: it outlives this one."""
    if process.poll() is None:
        process.returncode = 0


def _start_quietly(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command in the background."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = _opened(log)
    try:
        return _start(words, {_LOG: str(log)}, output=descriptor, errors=descriptor)
    finally:
        os.close(descriptor)


def _start(
    words: Sequence[str],
    variables: dict[str, str],
    *,
    output: int,
    errors: int | None = None,
    keep: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    # Without the current folder on the path: what lies in it is not ours.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "encamp.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env={**os.environ, **variables},
        pass_fds=keep,
        start_new_session=True,
    )


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, frame: FrameType | None) -> None:
        del number, frame
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_to(log: Path) -> None:
    """Redirect stdout and stderr of this process to a log."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    descriptor = _opened(log)
    os.dup2(descriptor, _STDOUT)
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)


def _opened(log: Path) -> int:
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
