"""Lines on a terminal: steps of encamp with the time since the start, lines of replicas with their names."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING

from encamp.cli.out import say
from encamp.cli.verbosity import Verbosity
from encamp.run.detail import Detail, kept
from encamp.run.history.context import Context, never_raising
from encamp.run.history.detached import own_log
from encamp.run.logs.metric_reports import MARK as METRIC
from encamp.text import visible

if TYPE_CHECKING:
    from pathlib import Path


def printable(line: str) -> str:
    """A line without what would steer the terminal: that is shown as an escape."""
    return visible(line, kept="\t")


class Lines:
    """Writes whole lines, from any thread; a closed terminal is no error.

    A detached driver has no terminal: its steps go to its log alone, and its replicas' lines stay in the spool. The log
    has every step; one that only ``--verbose`` shows is indented there.
    """

    def __init__(self, verbosity: Verbosity = Verbosity.VERBOSE) -> None:
        self._verbosity = verbosity
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._write = never_raising(self._echo)
        self._kept: IO[str] | None = None
        self._quiet = False
        log = own_log()
        if log is not None:
            self.keep(log, quiet=True)

    def keep(self, log: Path, *, quiet: bool = False) -> None:
        """Add every step to a driver's log from now on; ``quiet`` shows nothing any more."""
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Held open: whoever follows it reads to the last line, though the job's folder is gone by then.
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kept = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        self._quiet = quiet

    def show(self, line: str) -> None:
        """A step of encamp."""
        self._keep(line)
        if not self._quiet and shown(line, self._verbosity):
            self._write(f"[{time.monotonic() - self._begun:6.1f}s] {line}")

    def log(self, replica: str, line: str) -> None:
        """A line of a replica's log; what would steer the terminal is shown as an escape.

        Reports of a metric are for who drives the study, one a second and trial: `encamp trials --watch` shows them.
        """
        if not self._quiet and self._verbosity is not Verbosity.QUIET and not line.startswith(METRIC):
            self._write(f"{replica} | {printable(line)}")

    def context(self) -> Context:
        """Make the context of commands about jobs, with this writer for its lines."""
        from encamp.jobs.opening import allocatable_room  # noqa: PLC0415 - it opens whole environments

        return Context(self.show, self.log, allocatable=allocatable_room)

    def _echo(self, line: str) -> None:
        with self._lock:
            say(line)

    def _keep(self, line: str) -> None:
        if self._kept is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._kept.write(f"{at} {kept(line)}\n")


def shown(line: str, verbosity: Verbosity) -> bool:
    """Whether a step is shown."""
    return verbosity is Verbosity.VERBOSE or (verbosity is Verbosity.SHORT and not isinstance(line, Detail))
