"""``encamp logs``: what a job's replicas wrote, the same text before, during and after its tear-down."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import environment_named
from encamp.cli.known import JOB, looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from encamp.cli.known import Looking
    from encamp.cloud.storage import Storage
    from encamp.run.sealed import FoundLog

#: A line of which more is held is shown in pieces.
_LONGEST_HELD = 1024 * 1024
#: What a shell says of a command that Ctrl-C ended.
_INTERRUPTED = 130


@click.command()
@JOB
@ENVIRONMENT
@click.option("--replica", metavar="NAME", help="Only this one's log, such as worker-replica-1, as it was written.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
def command(job: str, environment: str, replica: str | None, *, follow: bool) -> None:
    """Show the logs of JOB, an id.

    They come from the bucket once the job has ended, before that from its driver's files if that is of this machine,
    else from the cluster. What is missing of a log is said on stderr.
    """
    from encamp.run.job_logs import JobLogs  # noqa: PLC0415 - `encamp logs --help` needs none of it
    from encamp.run.sealed import chosen  # noqa: PLC0415

    with looking(environment) as jobs:
        project = environment_named(environment).project
        logs = JobLogs(
            job, jobs.catalogue, jobs.records, jobs.storage, jobs.context, environment=environment, project=project
        )
        try:
            if follow:
                _wait(jobs, job)
                for log in logs.follow(replica, _writer(named=replica is None)):
                    _lack(log)
                return
            with logs.now() as found:
                for log in found if replica is None else [chosen(found, replica)]:
                    _show(log, jobs.storage, named=replica is None)
        except BrokenPipeError:
            # Whoever reads has enough, as with `| head`; nothing may be flushed into the pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


def _wait(jobs: Looking, job: str) -> None:
    """Wait while nobody has begun the job."""
    from encamp.run.following import wait_until_begun  # noqa: PLC0415

    wait_until_begun(jobs.records, job, lambda line: say(line, err=True))


def _writer(*, named: bool) -> Callable[[str, bytes], None]:
    return lambda replica, lines: _put(replica, [lines], named=named)


def _show(log: FoundLog, storage: Storage, *, named: bool) -> None:
    from encamp.run.sealed import read_log  # noqa: PLC0415

    _put(log.replica, read_log(log, storage), named=named)
    _lack(log)


def _put(replica: str, pieces: Iterable[bytes], *, named: bool) -> None:
    """A log as it was written where a program reads one alone, else as lines that do not steer the terminal."""
    from encamp.cli.lines import printable  # noqa: PLC0415

    if not named and not sys.stdout.isatty():
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    else:
        before = f"{replica} | " if named else ""
        for line in _lines(pieces):
            say(f"{before}{printable(line)}")


def _lack(log: FoundLog) -> None:
    if log.reason:
        say(f"{log.replica}: its log is not whole: {log.reason}", err=True)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text that comes in pieces, however long they are."""
    from encamp.run.log_lines import plain  # noqa: PLC0415

    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            yield plain(line).decode("utf-8", "backslashreplace")
        if len(held) > _LONGEST_HELD:
            yield held.decode("utf-8", "backslashreplace")
            held = b""
    if held:
        yield held.decode("utf-8", "backslashreplace")
