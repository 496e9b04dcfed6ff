"""What the verbs that only look at jobs share: the catalogue of an environment's jobs, opened and closed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from encamp.cli.verbosity import Verbosity
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.catalogue import Catalogue, KnownJob
    from encamp.run.context import Context
    from encamp.run.intent import Intent
    from encamp.run.records import Records

JOB = click.argument("job", metavar="JOB")


@dataclass(frozen=True)
class Looking:
    """The jobs of an environment and where their files are."""

    environment: str
    catalogue: Catalogue
    storage: Storage
    context: Context
    records: Records

    def spool(self, job: KnownJob) -> Path:
        """Folder of this machine where a driver keeps a job's logs while it runs."""
        return self.context.job_folder(job.name or job.job_id) / "logs"

    def intent(self, job: KnownJob) -> Intent:
        """What this machine's record says that a job is, which whoever steers or follows it needs.

        Raises:
            UsageError: the record here does not know the job.
        """
        if job.intent is None:
            raise UsageError(
                "only the bucket knows this job: it was started with another record",
                where=job.job_id,
                hint="call the command where it was started, or set ENCAMP_RECORD_URL to the record of that machine",
            )
        return job.intent


@contextmanager
def looking(environment: str, verbosity: Verbosity = Verbosity.VERBOSE) -> Iterator[Looking]:
    """Open an environment's jobs; what is said of them goes to stdout as ``verbosity`` lets it.

    Raises:
        UsageError: there is no such environment.
        SandboxError: it is the sandbox's, and that does not run.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `--help` needs none of it
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.cloud.storage import Storage  # noqa: PLC0415
    from encamp.run.catalogue import Catalogue  # noqa: PLC0415

    spec = enter(environment)
    context = Lines(verbosity).context()
    storage = Storage(context.client)
    records = context.records()
    try:
        catalogue = Catalogue(records, storage, environment=environment, bucket=spec.artifacts_bucket)
        yield Looking(environment, catalogue, storage, context, records)
    finally:
        records.close()
