"""``encamp logs``: what a job's replicas wrote, the same text before, during and after its tear-down."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import ENVIRONMENT
from encamp.cli.known import JOB, looking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from encamp.cloud.storage import Storage
    from encamp.run.sealed import FoundLog

#: A line of which more is held is shown in pieces.
_LONGEST_HELD = 1024 * 1024


@click.command()
@JOB
@ENVIRONMENT
@click.option("--replica", metavar="NAME", help="Only this one's log, such as worker-replica-1, as it was written.")
def command(job: str, environment: str, replica: str | None) -> None:
    """Show the logs of JOB, an id: sealed in the bucket once it has ended, before that as its driver has them here.

    What is missing of a log is said on stderr.
    """
    from encamp.run.sealed import chosen, find_logs  # noqa: PLC0415 - `encamp logs --help` needs none of it

    with looking(environment) as jobs:
        found = jobs.catalogue.job(job)
        logs = find_logs(found, jobs.storage, jobs.spool(found))
        try:
            for log in logs if replica is None else [chosen(logs, replica)]:
                _show(log, jobs.storage, named=replica is None)
        except BrokenPipeError:
            # Whoever reads has enough, as with `| head`; nothing may be flushed into the pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(log: FoundLog, storage: Storage, *, named: bool) -> None:
    """A log as it was written where a program reads one alone, else as lines that do not steer the terminal."""
    from encamp.cli.lines import printable  # noqa: PLC0415
    from encamp.run.sealed import read_log  # noqa: PLC0415

    pieces = read_log(log, storage)
    if not named and not sys.stdout.isatty():
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    else:
        before = f"{log.replica} | " if named else ""
        for line in _lines(pieces):
            click.echo(f"{before}{printable(line)}")
    if log.reason:
        click.echo(f"{log.replica}: its log is not whole: {log.reason}", err=True)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text that comes in pieces, however long they are."""
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "backslashreplace")
        if len(held) > _LONGEST_HELD:
            yield held.decode("utf-8", "backslashreplace")
            held = b""
    if held:
        yield held.decode("utf-8", "backslashreplace")
