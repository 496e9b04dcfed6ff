"""``encamp logs``: what a job's replicas wrote, the same text before, during and after its tear-down."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from encamp.cli.known import JOB, looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from encamp.cloud.storage import Storage
    from encamp.jobs.opening import Looking
    from encamp.run.history.job_logs import JobLogs
    from encamp.run.history.log_view import LogPart
    from encamp.run.history.sealed import FoundLog

#: A line of which more is held is shown in pieces.
_LONGEST_HELD = 1024 * 1024
#: What a shell says of a command that Ctrl-C ended.
_INTERRUPTED = 130


@click.command()
@JOB
@ENVIRONMENT
@click.option("--replica", metavar="NAME", help="Only this one's log, such as worker-replica-1, as it was written.")
@click.option("--follow", "-f", is_flag=True, help="Continue until the job has ended.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each replica.")
@click.option("--since", metavar="DURATION|TIME", help="Only lines since then: 10m, 1h30m, 2d, 2026-05-01T12:00:00Z.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time, in UTC.")
def command(
    job: str,
    environment: str,
    replica: str | None,
    *,
    follow: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
) -> None:
    """Show the logs of JOB, an id.

    The logs of an ended job come from the bucket, those of a running job from its driver's files on this machine or
    from the cluster. stderr names missing parts. With --tail and --since only that part is read from the bucket. The
    time of a line is when encamp received it, within half a second.
    """
    part = _part(tail, since)
    with looking(environment) as jobs:
        logs = jobs.logs(job)
        if follow:
            _wait(jobs, job)
        try:
            if part is not None or timestamps:
                _show_part(logs, replica, part, timestamps=timestamps, follow=follow)
            elif follow:
                _say_lacks(logs.follow(replica, _writer(named=replica is None)))
            else:
                _show_all(logs, replica, jobs.storage)
        except BrokenPipeError:
            # Whoever reads has enough, as with `| head`; nothing may be flushed into the pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


def _part(tail: int | None, since_text: str | None) -> LogPart | None:
    """Return the part of the logs that was asked for, None for all."""
    from encamp.cli.since import since  # noqa: PLC0415
    from encamp.jobs.log_parts import log_part  # noqa: PLC0415

    if tail is None and since_text is None:
        return None
    return log_part(tail, since(since_text, datetime.now(UTC)) if since_text is not None else None)


def _show_all(logs: JobLogs, replica: str | None, storage: Storage) -> None:
    from encamp.run.history.sealed import chosen  # noqa: PLC0415

    with logs.now() as found:
        for log in found if replica is None else [chosen(found, replica)]:
            _show(log, storage, named=replica is None)


def _show_part(logs: JobLogs, replica: str | None, part: LogPart | None, *, timestamps: bool, follow: bool) -> None:
    """Show a part of the logs as lines, and what comes after it where they are followed."""
    from encamp.jobs.log_parts import parts_of  # noqa: PLC0415
    from encamp.run.history.log_view import LogPart  # noqa: PLC0415
    from encamp.run.times import micros  # noqa: PLC0415

    def put(name: str, line: bytes, at: int) -> None:
        _put_line(name if replica is None else None, line, at if timestamps else None)

    def come(name: str, lines: bytes) -> None:
        at = micros(datetime.now(UTC))
        for line in lines.removesuffix(b"\n").split(b"\n"):
            put(name, line, at)

    positions: dict[str, int] = {}
    with logs.views() as views:
        for view, lines in parts_of(views, replica, part or LogPart()):
            positions[view.log.replica] = view.whole_lines() if follow else view.size
            for line in lines:
                if line.end <= positions[view.log.replica]:
                    put(view.log.replica, line.text, line.at)
            if not follow:
                _lack(view.log)
    if follow:
        _say_lacks(logs.follow(replica, come, positions))


def _say_lacks(logs: Iterable[FoundLog]) -> None:
    for log in logs:
        _lack(log)


def _put_line(replica: str | None, line: bytes, at: int | None) -> None:
    """A line, with the replica's name and with its time where they are given; it does not steer the terminal."""
    from encamp.cli.lines import printable  # noqa: PLC0415
    from encamp.run.logs.log_lines import plain  # noqa: PLC0415
    from encamp.run.times import written  # noqa: PLC0415

    name = f"{replica} | " if replica is not None else ""
    # Times are known to half a second.
    time = f"{written(at)[:-4]}Z " if at is not None else ""
    say(f"{name}{time}{printable(plain(line).decode('utf-8', 'backslashreplace'))}")


def _wait(jobs: Looking, job: str) -> None:
    """Wait while nobody has begun the job."""
    from encamp.run.history.following import wait_until_begun  # noqa: PLC0415

    wait_until_begun(jobs.records, job, lambda line: say(line, err=True))


def _writer(*, named: bool) -> Callable[[str, bytes], None]:
    return lambda replica, lines: _put(replica, [lines], named=named)


def _show(log: FoundLog, storage: Storage, *, named: bool) -> None:
    from encamp.run.history.sealed import read_log  # noqa: PLC0415

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
    from encamp.run.logs.log_lines import plain  # noqa: PLC0415

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
