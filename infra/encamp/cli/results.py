"""``encamp results``: copy what a job left to this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.cli.known import JOB, looking
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from encamp.cli.known import Looking
    from encamp.run.result_copy import Copied

#: What a shell says of a command that Ctrl-C ended.
_INTERRUPTED = 130


@click.command()
@JOB
@click.argument("folder", required=False, metavar="[FOLDER]", type=click.Path(path_type=Path))
@ENVIRONMENT
def command(job: str, folder: Path | None, environment: str) -> None:
    """Copy what JOB, an id, left to FOLDER, by default ./JOB: output, logs, receipt and the output of its trials.

    Called again, it goes on where it was interrupted and copies only what is new or has changed: size and checksum
    tell. Files of the same names are replaced. Of a job that runs it copies what is there so far. Nothing is written
    outside of FOLDER; objects whose names do not allow that are left out and named, with exit code 3.
    """
    target = folder if folder is not None else Path(job)
    try:
        with looking(environment) as jobs:
            done = _copy(jobs, job, target)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on where it stopped", err=True)
        sys.exit(_INTERRUPTED)
    _tell(done, target)


def _copy(jobs: Looking, job: str, folder: Path) -> Copied:
    from encamp.run.result_copy import Target  # noqa: PLC0415 - `--help` needs none of it
    from encamp.run.result_files import is_living, result_files  # noqa: PLC0415

    known = jobs.catalogue.job(job)
    if is_living(known):
        say(f"{job} is {known.state}: what it has written so far is copied; call it again after its end", err=True)
    found = result_files(known, jobs.storage)
    target = Target(folder)
    try:
        files, left_out = found.placed(folds_case=target.folds_case)
        total = sum(file.stored.size for file in files)
        with click.progressbar(
            length=total, label=f"{len(files)} files", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            done = target.copy(jobs.storage, files, bar.update)
    finally:
        target.close()
    done.left_out += left_out
    return done


def _tell(done: Copied, folder: Path) -> None:
    from encamp.errors import EngineError  # noqa: PLC0415

    already = f"; {done.there} were there already" if done.there else ""
    say(f"{done.files} files copied to {folder}, {done.size / 2**20:.1f} MiB{already}")
    for left in done.left_out:
        say(f"left out: {left.uri}: {left.reason}", err=True)
    if done.left_out:
        raise EngineError(
            f"{len(done.left_out)} objects were not copied", hint="`gcloud storage cp` copies single objects by name"
        )
