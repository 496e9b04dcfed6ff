"""Starting a process, waiting for it and ending it with all that it started.

When the process itself ends, what it left behind is killed, as in a container. ``stop`` asks everything at once with
SIGTERM and kills everything at once after one grace period. Both work for children that changed their session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from encamp.errors import EngineError
from encamp.process import tree
from encamp.process.linux import death_with_parent, process_handle
from encamp.process.model import ProcessOutcome, ProcessSpec
from encamp.process.output import LineReader, OutputLine

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Sequence

    import psutil

    Output = int | Callable[[OutputLine], None] | None

#: How long output may still come after the last process of the tree is gone (a pipe may have left the tree).
_DRAIN_SECONDS = 2.0
_POLL_SECONDS = 0.05


async def start(
    spec: ProcessSpec,
    *,
    output: Output = None,
    errors: Output = None,
    raw: Callable[[bytes], None] | None = None,
) -> LiveProcess:
    """Start a process; it belongs to the running event loop and, on Linux, dies with this thread.

    Args:
        spec: what to start.
        output: where standard output goes: a file descriptor, a callback that gets each line, or None for nowhere.
        errors: the same for standard error; None sends it where standard output goes, in the order of writing.
        raw: a callback that gets the bytes of whatever goes to callbacks as they come, before their lines.

    Raises:
        EngineError: there is no such program or folder, or it cannot be executed.
    """
    mark = secrets.token_hex(16)
    readers: list[LineReader] = []
    out, out_end = await _sink(output, readers, raw)
    err, err_end = await _sink(errors, readers, raw) if errors is not None else (subprocess.STDOUT, None)
    started = datetime.now(UTC)
    try:
        process = _spawn(spec, mark, out, err)
    finally:
        for end in (out_end, err_end):
            if end is not None:
                os.close(end)
    return LiveProcess(spec, process, started, mark, readers)


async def stop_all(processes: Sequence[LiveProcess], grace: float | None = None) -> list[ProcessOutcome]:
    """Stop many processes at the same time; each within its own grace period unless one is given."""
    now = time.monotonic()
    return list(await asyncio.gather(*(process.stop(grace, seen_since=now) for process in processes)))


class LiveProcess:
    """A process that was started and is ours to wait for; made by ``start``."""

    def __init__(
        self,
        spec: ProcessSpec,
        process: subprocess.Popen[bytes],
        started: datetime,
        mark: str,
        readers: list[LineReader],
    ) -> None:
        self.spec = spec
        self.pid = process.pid
        self.started_at = started
        self._process = process
        self._mark = mark
        self._readers = readers
        self._stopping = False
        self._ended = asyncio.create_task(self._watch())

    @property
    def running(self) -> bool:
        """Whether it, or something that it started, may still run."""
        return not self._ended.done()

    @property
    def exited(self) -> bool:
        """Whether the process itself has ended; what it started may run on for a moment."""
        return self._process.returncode is not None

    async def wait(self) -> ProcessOutcome:
        """Wait until it, what it started and its output have ended. Cancelling this leaves the process alone."""
        return await asyncio.shield(self._ended)

    async def stop(self, grace: float | None = None, *, seen_since: float | None = None) -> ProcessOutcome:
        """Ask all of it to end and kill what is left after ``grace`` seconds (None: as the spec says; 0: only kill).

        ``seen_since``: see ``tree.members``; for who stops many.
        """
        patience = self.spec.grace_seconds if grace is None else grace
        self._stopping = patience > 0
        deadline = asyncio.get_running_loop().time() + patience
        if self.running and self._stopping:
            tree.send(self._members(seen_since), signal.SIGTERM)
        while self.running and asyncio.get_running_loop().time() < deadline:
            await asyncio.wait({self._ended}, timeout=_POLL_SECONDS)
        self.kill()
        return await self.wait()

    def kill(self) -> None:
        """Kill all of it, also what is in its grace period."""
        self._stopping = False
        if self.running:
            tree.send(self._members(), signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process itself, if it has not ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _members(self, seen_since: float | None = None) -> list[psutil.Process]:
        return tree.members(self.pid, self._mark, leader_ended=self.exited, since=seen_since)

    async def _watch(self) -> ProcessOutcome:
        status, usage = await _wait(self.pid)
        ended = datetime.now(UTC)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        await self._end_rest()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                for reader in self._readers:
                    await reader.done.wait()
        code = self._process.returncode
        return ProcessOutcome(
            name=self.spec.name,
            pid=self.pid,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            started_at=self.started_at,
            ended_at=ended,
            peak_memory_bytes=usage.ru_maxrss * _MAXRSS_UNIT,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
        )

    async def _end_rest(self) -> None:
        """Kill what the leader left; while it is being stopped, the rest has its grace period."""
        patience = _DRAIN_SECONDS
        while patience > 0:
            # Others that end at the same time come here too before the first of us looks, and look no more.
            now = time.monotonic()
            await asyncio.sleep(0)
            left = self._members(now)
            if not left:
                return
            if not self._stopping:
                tree.send(left, signal.SIGKILL)
                patience -= _POLL_SECONDS  # what took another user's identity cannot be killed by us
            await asyncio.sleep(_POLL_SECONDS)


#: ru_maxrss counts bytes on macOS and KiB on Linux.
_MAXRSS_UNIT = 1 if os.uname().sysname == "Darwin" else 1024


async def _wait(pid: int) -> tuple[int, resource.struct_rusage]:
    handle = process_handle(pid)
    if handle is None:
        with ThreadPoolExecutor(1, "wait") as pool:
            _, status, usage = await asyncio.get_running_loop().run_in_executor(pool, os.wait4, pid, 0)
        return status, usage
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
        _, status, usage = os.wait4(pid, 0)  # noqa: ASYNC222 - it has ended, this does not block
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return status, usage


async def _sink(
    output: Output, readers: list[LineReader], raw: Callable[[bytes], None] | None
) -> tuple[int, int | None]:
    """Return the descriptor that the child writes to, and the same again where we have to close our copy."""
    if output is None:
        return subprocess.DEVNULL, None
    if isinstance(output, int):
        return output, None
    read_end, write_end = os.pipe()
    reader = LineReader(output, raw=raw)
    await asyncio.get_running_loop().connect_read_pipe(lambda: reader, os.fdopen(read_end, "rb", 0))
    readers.append(reader)
    return write_end, write_end


def _spawn(spec: ProcessSpec, mark: str, out: int, err: int) -> subprocess.Popen[bytes]:
    program = shutil.which(spec.argv[0], path=spec.env.get("PATH", os.defpath))
    if program is None:
        raise EngineError("no such program, or it may not be executed", where=spec.argv[0])
    if spec.cwd is not None and not spec.cwd.is_dir():
        raise EngineError("no such folder to start in", where=str(spec.cwd))
    try:
        return subprocess.Popen(
            spec.argv,
            executable=program,
            env={**spec.env, **({tree.FAMILY: spec.family} if spec.family else {}), tree.MARK: mark},
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=spec.pass_fds,
            start_new_session=spec.new_session,
            # One prctl, made ready before the fork: it takes no lock that another thread could hold.
            preexec_fn=death_with_parent() if spec.die_with_parent else None,  # noqa: PLW1509
        )
    except OSError as error:
        raise EngineError(f"{spec.name} cannot be started: {error.strerror}", where=program) from error
