"""``encamp results``: copy what a job left to this machine."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import click

from encamp import jobs
from encamp.cli.known import JOB
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT
from encamp.errors import EngineError

#: What a shell says of a command that Ctrl-C ended.
_INTERRUPTED = 130


@click.command()
@JOB
@click.argument("folder", required=False, metavar="[FOLDER]", type=click.Path(path_type=Path))
@ENVIRONMENT
def command(job: str, folder: Path | None, environment: str) -> None:
    """Copy the results of JOB, an id, to FOLDER, by default ./JOB: output, logs, receipt and the output of its trials.

    A second call continues an interrupted copy and copies only files that are new or changed, by size and checksum.
    Files of the same names are replaced. The results of a running job are copied as far as they exist. Nothing is
    written outside FOLDER: objects whose names lead outside are skipped and named, with exit code 3.
    """
    try:
        with _Bar() as bar:
            done = jobs.results(job, folder, environment=environment, progress=bar.come)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on where it stopped", err=True)
        sys.exit(_INTERRUPTED)
    _tell(job, done)


class _Bar:
    """A progress bar on a terminal, from the first bytes on."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def come(self, there: int, total: int) -> None:
        """Show how many bytes are there, of how many."""
        if self._bar is None:
            hidden = not sys.stderr.isatty()
            self._bar = self._stack.enter_context(click.progressbar(length=total, file=sys.stderr, hidden=hidden))
        self._bar.update(there - self._bar.pos)


def _tell(job: str, done: jobs.CopiedResults) -> None:
    if done.goes_on:
        say(f"{job} is {done.goes_on}: what it has written so far is copied; call it again after its end", err=True)
    already = f"; {done.already_there} were there already" if done.already_there else ""
    say(f"{done.files} files copied to {done.folder}, {done.size / 2**20:.1f} MiB{already}")
    for left in done.left_out:
        say(f"left out: {left.uri}: {left.reason}", err=True)
    if done.left_out:
        raise EngineError(
            f"{len(done.left_out)} objects were not copied", hint="`gcloud storage cp` copies single objects by name"
        )
