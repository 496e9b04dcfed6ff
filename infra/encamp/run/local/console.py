"""The output of a local run: lines as they come, a file for each replica, and a table at the end."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from encamp.errors import UsageError
from encamp.run.local.screen import Screen, wants_colour
from encamp.run.local.terminal import TerminalWriter
from encamp.text import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from encamp.process import OutputLine
    from encamp.run.local.model import LocalReplica, ReplicaEnd

_MIB = 2**20
_LONG_SECONDS = 120
_HEADER = ("replica", "exit code", "duration", "peak memory", "CPU time", "restarts")


class RunConsole:
    """A :class:`~encamp.run.local.model.Console` that writes to a terminal, a file or a pipe.

    Args:
        write: gets text as it is to be written.
        names: every replica.
        logs: folder that keeps one file for each replica, each byte as it came; made where it is missing.
        terminal: whether a person looks at it.
        colour: whether to colour.
        width: columns of the terminal.
        clock: seconds that only grow.

    Attributes:
        patience: at the end, how many seconds somebody has to read the rest; None for as long as it takes.

    Raises:
        UsageError: the folder or a file in it cannot be written.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        names: Sequence[str],
        *,
        logs: Path | None = None,
        terminal: bool = False,
        colour: bool = False,
        width: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen = Screen(write, names, terminal=terminal, colour=colour, width=width, clock=clock)
        self.patience: float | None = None
        self._primary = ""
        self._logs = logs
        self._files = _open_logs(logs, names) if logs is not None else {}

    def add(self, names: Sequence[str]) -> None:
        """Add replicas.

        Raises:
            UsageError: as when it is made.
        """
        if self._logs is not None:
            self._files |= _open_logs(self._logs, names)
        self._screen.add(names)

    def drop(self, names: Sequence[str]) -> None:
        """Drop replicas that have ended, and close their files."""
        self._screen.drop([name for name in names if self._screen.has(name)])
        for name in names:
            if (file := self._files.pop(name, None)) is not None:
                file.close()

    def text(self, text: str) -> None:
        """Show lines as they are."""
        self._screen.text(text)

    def started(self, replica: LocalReplica, restarts: int) -> None:
        """Show a restart; first starts come all at once."""
        if replica.primary:
            self._primary = replica.name
        if restarts:
            self._screen.say(f"{replica.name} starts again ({restarts})")

    def line(self, replica: str, piece: OutputLine) -> None:
        """Show it."""
        self._screen.line(replica, piece)

    def raw(self, replica: str, data: bytes) -> None:
        """Keep it; a full disk ends the file, not the run."""
        file = self._files.get(replica)
        if file is None:
            return
        try:
            file.write(data)
        except OSError as error:
            del self._files[replica]
            file.close()
            self._screen.say(f"warning: the log of {replica} ends here: {error.strerror}")

    def tail(self, replica: str) -> tuple[str, ...]:
        """Return the replica's last lines."""
        return self._screen.tail(replica)

    def paused(self, replica: str) -> None:
        """Finish its line."""
        self._screen.ended(replica)

    def ended(self, end: ReplicaEnd) -> None:
        """Show an end, unless we caused it; the run says what a failure of a secondary replica leads to."""
        self._screen.ended(end.name)
        if not end.stopped and (end.outcome.ok or end.name == self._primary):
            self._screen.say(f"{end.outcome} after {_duration(_seconds(end))}")

    def note(self, text: str) -> None:
        """Show a line."""
        self._screen.say(text)

    def summary(self, ends: Sequence[ReplicaEnd]) -> None:
        """Show the last lines of failed replicas, a table of all, and where the logs are."""
        # A replica alone has just written its own.
        failed = [end for end in ends if not end.stopped and not end.outcome.ok and end.last_lines]
        if len(ends) > 1:
            for end in failed:
                self._screen.text(f"\nthe last lines of {end.name} ({end.outcome}):")
                self._screen.text("\n".join(f"  | {line}" for line in end.last_lines))
        self._screen.text(f"\n{summary_table(ends)}")
        if self._logs is not None:
            self._screen.text(f"logs         {self._logs}")

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


@contextmanager
def opened_console(
    names: Sequence[str], environ: Mapping[str, str], *, logs: Path | None = None, stream: TextIO | None = None
) -> Iterator[RunConsole]:
    """Yield a console on a stream (default: standard output); at the end everything has been written.

    Raises:
        UsageError: the folder of the logs cannot be written.
    """
    stream = stream or sys.stdout
    terminal = stream.isatty() and environ.get("TERM") != "dumb"
    writer = TerminalWriter(stream.fileno(), stream.encoding or "utf-8")
    console: RunConsole | None = None
    try:
        console = RunConsole(
            writer.write,
            names,
            logs=logs,
            terminal=terminal,
            colour=wants_colour(environ, terminal=terminal),
            width=lambda: shutil.get_terminal_size().columns,
        )
        yield console
    finally:
        if console is not None:
            console.close()
        writer.close(console.patience if console is not None else None)


def summary_table(ends: Sequence[ReplicaEnd]) -> str:
    """Return a row for each replica, columns aligned."""
    return "\n".join(aligned([_HEADER, *(_row(end) for end in ends)]))


def _row(end: ReplicaEnd) -> tuple[str, ...]:
    outcome = end.outcome
    code = str(outcome.exit_code) if outcome.signal is None else f"{outcome.code} (signal {outcome.signal})"
    return (
        end.name,
        f"{code}, stopped" if end.stopped else code,
        _duration(_seconds(end)),
        f"{outcome.peak_memory_bytes / _MIB:.0f} MiB",
        _duration(outcome.cpu_seconds),
        str(end.restarts),
    )


def _seconds(end: ReplicaEnd) -> float:
    return (end.outcome.ended_at - end.outcome.started_at).total_seconds()


def _duration(seconds: float) -> str:
    if seconds < _LONG_SECONDS:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _open_logs(folder: Path, names: Sequence[str]) -> dict[str, BinaryIO]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what a replica wrote is there, whatever becomes of us.
        return {name: (folder / f"{name}.log").open("wb", buffering=0) for name in names}
    except OSError as error:
        raise UsageError(
            f"{str(folder)!r} cannot be written: {error.strerror}", where="--log-dir", hint="name another folder"
        ) from error
