"""The jobs of an environment, opened for whoever looks at them or steers them, and closed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.cloud.storage import Storage
from encamp.errors import PlanError, UsageError
from encamp.jobs.target import enter
from encamp.jobs.visiting import visiting
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.context import Context
from encamp.run.history.job_logs import JobLogs
from encamp.run.logs.metric_reports import MARK as METRIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from encamp.run.history.catalogue import KnownJob
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Records


@dataclass(frozen=True)
class Looking:
    """The jobs of an environment and where their files are."""

    environment: str
    project: str
    catalogue: Catalogue
    storage: Storage
    context: Context
    records: Records

    def spool(self, job: KnownJob) -> Path:
        """Folder of this machine where a driver keeps a job's logs while it runs."""
        return self.context.job_folder(job.name or job.job_id) / "logs"

    def logs(self, job_id: str) -> JobLogs:
        """A job's logs, wherever they are."""
        return JobLogs(
            job_id,
            self.catalogue,
            self.records,
            self.storage,
            self.context,
            environment=self.environment,
            project=self.project,
        )

    def intent(self, job: KnownJob) -> Intent:
        """Return what this machine's record says of a job, for commands that steer or follow it.

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


@contextlib.contextmanager
def looking(environment: str, open_context: Callable[[], Context]) -> Iterator[Looking]:
    """Open an environment's jobs, and enter its cloud for as long as this process lasts.

    Args:
        environment: its stack.
        open_context: called once the cloud is entered.

    Raises:
        UsageError: there is no such environment.
        SandboxError: it is the sandbox's, and that does not run.
    """
    spec = enter(environment)
    context = open_context()
    storage = Storage(context.client)
    with contextlib.closing(context.records()) as records:
        catalogue = Catalogue(records, storage, environment=environment, bucket=spec.artifacts_bucket)
        yield Looking(environment, spec.project, catalogue, storage, context, records)


@contextlib.contextmanager
def opened(environment: str | None) -> Iterator[Looking]:
    """Open an environment's jobs for one call that says nothing; errors as of ``visiting`` and ``looking``."""
    with visiting(environment) as stack, looking(stack, quiet_context) as known:
        yield known


def quiet_context(
    on_step: Callable[[str], None] | None = None, on_line: Callable[[str, str], None] | None = None
) -> Context:
    """Make the context of a call about jobs; lines go to the callbacks, whose errors are ignored."""

    def show(line: str) -> None:
        if on_step is not None:
            with contextlib.suppress(Exception):
                on_step(str(line))

    def log(replica: str, line: str) -> None:
        # Reports of a metric are for who drives the study.
        if on_line is not None and not line.startswith(METRIC):
            with contextlib.suppress(Exception):
                on_line(replica, line)

    return Context(show, log, allocatable=allocatable_room)


def allocatable_room(machine_type: str) -> Mapping[str, float]:
    """Return what a machine leaves to pods as numbers; nothing if the catalog does not know it."""
    from encamp.plan.machines.allocatable import allocatable  # noqa: PLC0415 - wanted only while replicas wait

    try:
        room = allocatable(machine_type)
    except PlanError:
        return {}
    return {"cpu": room.cpu_millis / 1000, "memory": room.memory_mib * 2.0**20, **room.devices}
