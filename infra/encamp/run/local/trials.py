"""Trials as processes of this machine: each a run of its own, all of them on one console."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.errors import EncampError
from encamp.run.local.runner import LocalRun
from encamp.run.logs.metric_reports import MARK
from encamp.run.studies.event_folders import event_folder
from encamp.run.studies.host import TrialLook
from encamp.run.studies.metrics import TrialMetrics
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.process import OutputLine
    from encamp.run.local.console import RunConsole
    from encamp.run.local.model import LocalReplica, LocalRunOptions, ReplicaEnd
    from encamp.run.local.slots import Slots
    from encamp.tuning.model import Measurement, Trial

_MARK = MARK.encode()
_METRIC_BYTES = 1024 * 1024


@dataclass
class _Running:
    """One running trial.

    Attributes:
        said: reports that its replicas wrote to their output.
        told: it was told to stop.
        over: how it ended, None while it has not.
    """

    trial: Trial
    metrics: TrialMetrics
    said: deque[str] = field(default_factory=deque)
    files: dict[Path, tuple[int, int]] = field(default_factory=dict)
    run: LocalRun | None = None
    started: float | None = None
    told: bool = False
    over: TrialLook | None = None
    complete: bool = False


class LocalTrials:
    """The trials of one study; a :class:`~encamp.run.studies.host.TrialHost` that any thread may ask.

    Made where the event loop runs that the trials run in.

    Args:
        slots: where they run.
        options: how each is treated.
        console: the listener.
        folder: for what they report, empty.
        family: mark of their processes, see ``runner.run``.
        storage: of a job dir in Cloud Storage, None if it is not to be asked.

    Attributes:
        changed: set when a trial has ended.
    """

    def __init__(
        self,
        slots: Slots,
        options: LocalRunOptions,
        console: RunConsole,
        folder: Path,
        *,
        family: str | None,
        storage: Storage | None,
    ) -> None:
        self._slots = slots
        self._options = options
        self._console = console
        self._folder = folder
        self._family = family
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._free = list(range(len(slots.ports)))
        self._known: dict[int, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()

    def begin(self, trial: Trial) -> None:
        """Start a trial."""
        job_dir = self._slots.job.plan.storage.job_dir
        metrics = TrialMetrics(self._slots.study.metric, events=event_folder(job_dir, trial.number, self._storage))
        metrics.since = trial.created
        entry = self._known[trial.number] = _Running(trial, metrics)
        self._loop.call_soon_threadsafe(self._start, entry)

    def look(self) -> Mapping[int, TrialLook]:
        """Return the state of each trial."""
        return {number: self._look(entry) for number, entry in list(self._known.items())}

    def stop(self, number: int) -> None:
        """Stop a trial's replicas."""
        if (entry := self._known.get(number)) is not None:
            self._loop.call_soon_threadsafe(self._stop, entry)

    def settle(self, number: int) -> None:
        """Forget a trial."""
        if self._known.pop(number, None) is not None:
            shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def interrupt(self) -> None:
        """Stop all trials; a second time kills what still runs. Called in the loop's thread."""
        for entry in list(self._known.values()):
            self._stop(entry, again=True)

    async def close(self) -> None:
        """Wait until nothing runs; what does is told to stop."""
        for entry in list(self._known.values()):
            self._stop(entry)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, entry: _Running) -> None:
        task = self._loop.create_task(self._run(entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self, entry: _Running, *, again: bool = False) -> None:
        if entry.run is not None and entry.over is None and (again or not entry.told):
            entry.run.interrupt(signal.SIGTERM)
        entry.told = True

    async def _run(self, entry: _Running) -> None:
        if entry.told:
            entry.over = TrialLook(TrialState.CANCELLED)
            return
        slot = self._free.pop(0)
        names: list[str] = []
        try:
            replicas = self._slots.replicas(entry.trial, slot, self._folder / str(entry.trial.number))
            for _, path in replicas:
                path.parent.mkdir(parents=True)
            entry.files = {path: (0, 0) for _, path in replicas}
            names = [replica.name for replica, _ in replicas]
            self._console.add(names)
            told = _TrialConsole(self._console, entry)
            entry.run = LocalRun([replica for replica, _ in replicas], self._options, told, self._family)
            entry.started = time.time()
            code = await entry.run.run()
            entry.over = self._ended(entry, code, told.ends)
        except (EncampError, OSError) as error:
            entry.over = TrialLook(TrialState.FAILED, message=str(error), started=entry.started, ended=time.time())
        finally:
            self._console.drop(names)
            self._free.append(slot)
            self.changed.set()

    def _ended(self, entry: _Running, code: int, ends: Sequence[ReplicaEnd]) -> TrialLook:
        """Return the result of a trial's end, without its measurements."""
        state = TrialState.SUCCEEDED if code == 0 else TrialState.CANCELLED if entry.told else TrialState.FAILED
        message = ""
        if state is TrialState.FAILED:
            failed = [end for end in ends if not end.stopped and not end.outcome.ok]
            message = "; ".join(_told(end) for end in failed) or f"it ended with {code}"
        return TrialLook(state, message=message, started=entry.started, ended=time.time())

    def _look(self, entry: _Running) -> TrialLook:
        over = entry.over
        if over is None:
            state = TrialState.PREPARING if entry.started is None else TrialState.RUNNING
            return TrialLook(state, self._measured(entry, last=False), started=entry.started)
        if not entry.complete:
            measurements = self._measured(entry, last=True)
            missing = entry.metrics.missing() if over.state is TrialState.SUCCEEDED and not measurements else ""
            over = TrialLook(over.state, measurements, over.message or missing, started=over.started, ended=over.ended)
            entry.over, entry.complete = over, True
        return over

    def _measured(self, entry: _Running, *, last: bool) -> tuple[Measurement, ...]:
        while entry.said:
            entry.metrics.add_lines([entry.said.popleft()])
        for path, before in entry.files.items():
            entry.files[path] = self._reported(entry.metrics, path, before)
        return entry.metrics.read(last=last)

    def _reported(self, metrics: TrialMetrics, path: Path, before: tuple[int, int]) -> tuple[int, int]:
        """Read the library's file where it has changed; the last line may be half written."""
        try:
            found = path.stat()
            now = (found.st_mtime_ns, found.st_size)
            if now != before:
                with path.open("rb") as file:
                    file.seek(max(0, found.st_size - _METRIC_BYTES))
                    metrics.add_lines(file.read(_METRIC_BYTES).decode("utf-8", "replace").split("\n")[:-1])
        except OSError:
            return before
        return now


class _TrialConsole:
    """The listener of one trial: shows its replicas' lines, and returns their last ones on request."""

    def __init__(self, console: RunConsole, entry: _Running) -> None:
        self._console = console
        self._entry = entry
        self.ends: tuple[ReplicaEnd, ...] = ()

    def started(self, replica: LocalReplica, restarts: int) -> None:
        """Show a restart."""
        if restarts:
            self._console.note(f"{replica.name} starts again ({restarts})")

    def line(self, replica: str, piece: OutputLine) -> None:
        """Show it; a report of the metric is noted as well."""
        if piece.ended and piece.data.startswith(_MARK):
            self._entry.said.append(piece.text.removeprefix(MARK))
        self._console.line(replica, piece)

    def raw(self, replica: str, data: bytes) -> None:
        """Keep it."""
        self._console.raw(replica, data)

    def tail(self, replica: str) -> tuple[str, ...]:
        """Return the replica's last lines."""
        return self._console.tail(replica)

    def paused(self, replica: str) -> None:
        """Finish its line."""
        self._console.paused(replica)

    def ended(self, end: ReplicaEnd) -> None:
        """Finish its line; the study says how a trial ended."""
        self._console.paused(end.name)

    def note(self, text: str) -> None:
        """Show it, unless the study has ended the trial and said so."""
        if not self._entry.told:
            self._console.note(f"trial {self._entry.trial.number}: {text}")

    def summary(self, ends: Sequence[ReplicaEnd]) -> None:
        """Remember it."""
        self.ends = tuple(ends)


def _told(end: ReplicaEnd) -> str:
    return f"{end.outcome}: {end.last_lines[-1]}" if end.last_lines else str(end.outcome)
