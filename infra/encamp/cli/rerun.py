"""``encamp rerun``: run a job again, from what the record has of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from encamp.cli.job_input import JOB_ID
from encamp.cli.known import JOB, looking
from encamp.cli.out import say
from encamp.cli.run import KEEP_LOGS, drive
from encamp.cli.stack import ENVIRONMENT
from encamp.cli.verbosity import Verbosity, verbosity_options

if TYPE_CHECKING:
    from encamp.spec.job_file import JobFile


@click.command()
@JOB
@JOB_ID
@ENVIRONMENT
@KEEP_LOGS
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Folder of the job file, where its own packages lie; the current one by default.",
)
@verbosity_options
def command(
    job: str,
    job_id: str | None,
    environment: str,
    folder: Path,
    *,
    keep_local_logs: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run JOB, an id, again: the same job file under a new id, which is printed.

    The job file comes from the record. A trainer of this machine is packed anew from --folder, as it is now; it is said
    where that is another commit. Refused where the record leaves out a secret of the job file, or knows none.
    Exit codes are those of `encamp run`.
    """
    from encamp.run.history.rerun import recorded_job  # noqa: PLC0415 - `encamp rerun --help` needs none of it

    verbosity = Verbosity.of(verbose=verbose, quiet=quiet)
    with looking(environment) as jobs:
        intent = jobs.intent(jobs.catalogue.job(job))
        again = recorded_job(intent, folder)
    if again.changed and verbosity is not Verbosity.QUIET:
        say(f"warning: {again.changed}", err=True)
    drive(
        _Rerun(job, again.data, folder, verbosity),
        job_id,
        environment,
        keep_local_logs=keep_local_logs,
        parent=None,
        verbosity=verbosity,
    )


@dataclass(frozen=True)
class _Rerun:
    """A job that the record holds, under a new id."""

    before: str
    data: dict[str, Any]
    folder: Path
    verbosity: Verbosity

    def load(self, job_id: str | None, *, suffix: str = "") -> JobFile:
        """The job by a new id, which is printed."""
        from encamp.run.history.rerun import new_job_id  # noqa: PLC0415
        from encamp.spec.job_file import parse_job  # noqa: PLC0415

        chosen = job_id or new_job_id(self.before, suffix)
        data = {**self.data, "jobId": chosen}
        found = parse_job(data, source=f"the record of {self.before}", folder=self.folder.resolve()).named(job_id)
        say(f"{self.before} is run again as {chosen}")
        return found
