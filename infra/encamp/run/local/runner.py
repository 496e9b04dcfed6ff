"""Runs the replicas of a job here: starts all at once, watches them, and ends all that is left when the job ends.

The primary's end is the job's end, and its exit code is the run's. Another replica that fails for good ends the job
as failed, unless it is to keep going. Whatever ends the run, nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from encamp.duration import seconds_of
from encamp.errors import ExitCode
from encamp.plan.manifests.failure_policy import Consequence
from encamp.process import LiveProcess, ProcessSpec, start, stop_all
from encamp.run.local.model import Console, LocalReplica, LocalRunOptions, ReplicaEnd
from encamp.run.local.restarts import Restarts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from encamp.process import ProcessOutcome

#: Signals that ask a run to end. SIGQUIT is left alone: it ends the command at once, and the guardian its replicas.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHELL_SIGNAL = 128


async def run(
    replicas: Sequence[LocalReplica], options: LocalRunOptions, console: Console, *, family: str | None = None
) -> int:
    """Run replicas to the end of their job, from the main thread.

    Args:
        replicas: one of them the primary.
        options: how they are treated.
        console: the listener.
        family: mark that all processes carry, where a guardian watches over them.

    Returns:
        The primary's exit code (128 + n where signal n ended it), 1 where another replica's failure or the time limit
        ended the job, or 128 + n where this process got the signal n.

    Raises:
        EngineError: a replica cannot be started.
    """
    found = LocalRun(replicas, options, console, family)
    with on_signals(found.interrupt):
        return await found.run()


@contextlib.contextmanager
def on_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Pass signals that ask a command to end to the event loop's own thread, each time that they come."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    for number in _INTERRUPTS:
        loop.add_signal_handler(number, tell, number)
    try:
        yield
    finally:
        for number in _INTERRUPTS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


class LocalRun:
    """One run, as :func:`run`, but with signals left to the caller. Created where an event loop runs."""

    def __init__(
        self, replicas: Sequence[LocalReplica], options: LocalRunOptions, console: Console, family: str | None
    ) -> None:
        self._replicas = {replica.name: replica for replica in replicas}
        (self._primary,) = (replica.name for replica in replicas if replica.primary)
        self._options = options
        self._console = console
        self._family = family
        self._restarts = Restarts(options)
        self._starts = dict.fromkeys(self._replicas, 0)
        self._live: dict[str, LiveProcess] = {}
        self._waits: dict[asyncio.Task[ProcessOutcome], str] = {}
        self._ends: dict[str, ReplicaEnd] = {}
        self._interrupt: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Run to the end of the job; its exit code.

        Raises:
            EngineError: a replica cannot be started; none is left.
        """
        try:
            await self._start_all()
            code = await self._watch()
        finally:
            await self._stop_rest()
        self._console.summary([self._ends[name] for name in self._replicas if name in self._ends])
        return code

    async def _start_all(self) -> None:
        for replica in self._replicas.values():
            if not self._interrupt.done():
                await self._start(replica)

    async def _start(self, replica: LocalReplica) -> None:
        name, console = replica.name, self._console
        spec = ProcessSpec(
            name,
            replica.argv,
            replica.env,
            cwd=replica.cwd,
            grace_seconds=self._options.grace_seconds,
            # The guardian does the same for a family; without a call between fork and exec they start twice as fast.
            die_with_parent=self._family is None,
            family=self._family,
        )
        process = await start(
            spec, output=lambda piece: console.line(name, piece), raw=lambda data: console.raw(name, data)
        )
        self._live[name] = process
        self._waits[asyncio.create_task(process.wait())] = name
        console.started(replica, self._starts[name])
        self._starts[name] += 1

    async def _watch(self) -> int:
        """Wait until the job has ended and return its exit code. Other replicas may still run then."""
        loop = asyncio.get_running_loop()
        longest = self._options.max_running_time
        deadline = loop.time() + longest.seconds if longest is not None else None
        while True:
            left = max(deadline - loop.time(), 0) if deadline is not None else None
            await asyncio.wait({*self._waits, self._interrupt}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._interrupt.done():
                number = self._interrupt.result()
                self._console.note(f"{signal.Signals(number).name}: the job is ended")
                return _SHELL_SIGNAL + number
            if deadline is not None and loop.time() >= deadline:
                self._console.note(f"the job has run for {seconds_of(longest)} s, the longest that it may")
                return ExitCode.JOB_FAILED
            code = await self._ended([task for task in self._waits if task.done()])
            if code is not None:
                return code

    async def _ended(self, tasks: Sequence[asyncio.Task[ProcessOutcome]]) -> int | None:
        """Handle replicas that have ended: return the run's exit code, or None if it goes on."""
        outcomes = {self._waits[task]: await task for task in tasks}
        primary = self._live[self._primary]
        if self._primary not in outcomes and primary.exited:
            # It ended before the others did, and only what it left behind took longer: its end is the job's.
            outcomes[self._primary] = await primary.wait()
        self._waits = {task: name for task, name in self._waits.items() if name not in outcomes}
        order = sorted(outcomes, key=lambda name: (name != self._primary, outcomes[name].ended_at))
        for name in order:
            self._console.paused(name)
        code: int | None = None
        for name in order:
            if code is not None:
                self._end(name, outcomes[name])
                self._too(name, outcomes[name])
                continue
            follows = self._restarts.after(name, outcomes[name]) if not outcomes[name].ok else None
            if follows is Consequence.JOB_AGAIN:
                await self._start_over(outcomes[name])
                return None
            if follows is Consequence.REPLICA_AGAIN:
                self._console.note(f"{outcomes[name]}: it is started again ({self._restarts.told(name)})")
                await self._start(self._replicas[name])
            else:
                self._end(name, outcomes[name])
                code = self._verdict(name, outcomes[name])
        return code

    def _too(self, name: str, outcome: ProcessOutcome) -> None:
        """Report a failure beside the one that ended the job."""
        if not outcome.ok and name != self._primary:
            self._console.note(f"{outcome}, too")

    def _verdict(self, name: str, outcome: ProcessOutcome) -> int | None:
        """Return the exit code of the run where this end, which is for good, is the run's end."""
        if name == self._primary:
            return outcome.code
        if outcome.ok:
            return None
        if self._options.keep_going:
            self._console.note(f"{outcome}: the job goes on without it")
            return None
        self._console.note(f"{outcome}: the job has failed (--keep-going lets it go on)")
        return ExitCode.JOB_FAILED

    async def _start_over(self, cause: ProcessOutcome) -> None:
        count = f"{self._restarts.jobs} of {self._options.max_restarts}"
        self._console.note(f"{cause}: the whole job is started again ({count})")
        stopped = {self._waits[task] for task in self._waits}
        await stop_all([self._live[name] for name in stopped])
        for name in stopped:
            self._console.paused(name)
        self._waits.clear()
        self._ends.clear()
        await self._start_all()

    async def _stop_rest(self) -> None:
        """End what runs, all at once."""
        names = list(self._waits.values())
        late = {name for name in names if self._live[name].exited}
        outcomes = await stop_all([self._live[name] for name in names])
        self._waits.clear()
        for name, outcome in zip(names, outcomes, strict=True):
            self._console.paused(name)
            self._end(name, outcome, stopped=name not in late)
            if name in late:
                self._too(name, outcome)

    def _end(self, name: str, outcome: ProcessOutcome, *, stopped: bool = False) -> None:
        end = ReplicaEnd(name, outcome, self._console.tail(name), max(self._starts[name] - 1, 0), stopped)
        self._ends[name] = end
        self._console.ended(end)

    def interrupt(self, number: int) -> None:
        """End the run, as by a signal; a second time kills what still runs."""
        if not self._interrupt.done():
            self._interrupt.set_result(number)
            return
        for process in self._live.values():
            process.kill()
