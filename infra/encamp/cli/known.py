"""What the verbs that only look at jobs share: the catalogue of an environment's jobs, opened and closed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.catalogue import Catalogue, KnownJob
    from encamp.run.context import Context

JOB = click.argument("job", metavar="JOB")


@dataclass(frozen=True)
class Looking:
    """The jobs of an environment and where their files are."""

    catalogue: Catalogue
    storage: Storage
    context: Context

    def spool(self, job: KnownJob) -> Path:
        """Folder of this machine where a driver keeps a job's logs while it runs."""
        return self.context.job_folder(job.name or job.job_id) / "logs"


@contextmanager
def looking(environment: str) -> Iterator[Looking]:
    """Open an environment's jobs.

    Raises:
        UsageError: there is no such environment.
        SandboxError: it is the sandbox's, and that does not run.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `--help` needs none of it
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.cloud.storage import Storage  # noqa: PLC0415
    from encamp.run.catalogue import Catalogue  # noqa: PLC0415

    spec = enter(environment)
    context = Lines().context()
    storage = Storage(context.client)
    records = context.records()
    try:
        catalogue = Catalogue(records, storage, environment=environment, bucket=spec.artifacts_bucket)
        yield Looking(catalogue, storage, context)
    finally:
        records.close()
