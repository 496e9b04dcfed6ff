"""Ownership of Cloud Storage objects: the one rule for all objects that a job file may name.

The artifacts bucket holds results, logs, receipts and terms of every job. Below ``jobs/<jobId>/`` replicas write to
``output/`` alone and read ``packages/``; logs, receipt and the study's results lie beside these, where only drivers
write. A job may read single objects outside of ``jobs/`` and ``expiry/``. Buckets that other jobs made, and the
environment's other buckets, are refused. A bucket of the user's own is the user's affair.

Every prefix ends in ``/``: ids of jobs may begin alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.names import JOB_BUCKET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.environment import EnvironmentSpec

#: Folders of the artifacts bucket: what jobs leave, and notes of how long it is kept.
JOBS = "jobs/"
EXPIRY = "expiry/"
_BUCKET_OF_A_JOB = re.compile(JOB_BUCKET)


def job_prefix(job_id: str) -> str:
    """Return the prefix of a job's results, logs and receipt in the artifacts bucket."""
    return f"{JOBS}{job_id}/"


@dataclass(frozen=True)
class OwnedStorage:
    """Folders and buckets that belong to one job, and buckets that no job gets.

    Attributes:
        artifacts: the environment's artifacts bucket.
        made: buckets that the job itself makes.
        closed: other buckets of the environment, each with what it holds.
    """

    job_id: str
    artifacts: str
    made: frozenset[str] = frozenset()
    closed: Mapping[str, str] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The folder of the artifacts bucket that replicas write to."""
        return f"{job_prefix(self.job_id)}output/"

    @property
    def packages(self) -> str:
        """The folder of the artifacts bucket that holds packages of the driver's machine."""
        return f"{job_prefix(self.job_id)}packages/"

    def check_folder(self, uri: str, where: str) -> None:
        """Refuse a folder to write to that is not the job's.

        Args:
            uri: ``gs://BUCKET/FOLDER``, with or without a final ``/``.
            where: the field that names it.

        Raises:
            PlanError: it is another's.
        """
        bucket, name = _split(uri)
        self.check_bucket(bucket, where)
        if bucket == self.artifacts and not (f"{name.rstrip('/')}/".startswith(self.output) and _is_plain(name)):
            raise PlanError(
                f"{uri} is not this job's: in the artifacts bucket a job writes to its own output folder only",
                where=where,
                hint=f"write gs://{self.artifacts}/{self.output.rstrip('/')} or a folder below it, "
                "or name a bucket of your own",
            )

    def check_object(self, uri: str, where: str) -> None:
        """Refuse an object to read that belongs to another job, or tells of jobs.

        Raises:
            PlanError: it does.
        """
        bucket, name = _split(uri)
        self.check_bucket(bucket, where)
        if bucket != self.artifacts or name.startswith((self.output, self.packages)):
            return
        if name.startswith((JOBS, EXPIRY)) or not name:
            raise PlanError(
                f"{uri} belongs to another job, or to encamp",
                where=where,
                hint=f"copy it to a bucket of your own, or to gs://{self.artifacts} outside of {JOBS} and {EXPIRY}",
            )

    def check_bucket(self, bucket: str, where: str) -> None:
        """Refuse a bucket that another job made, or that belongs to the environment and not to jobs.

        Raises:
            PlanError: it is.
        """
        holds = self.closed.get(bucket) if bucket != self.artifacts else None
        if holds is None and bucket not in self.made and _BUCKET_OF_A_JOB.fullmatch(bucket):
            holds = "what another job made"
        if holds is not None:
            raise PlanError(
                f"gs://{bucket} holds {holds}; no job gets a right on it",
                where=where,
                hint="copy what the job needs to a bucket of your own",
            )

    def owns(self, uri: str) -> bool:
        """Whether the job's own grants reach an object or folder of the artifacts bucket."""
        bucket, name = _split(uri)
        return bucket == self.artifacts and f"{name.rstrip('/')}/".startswith((self.output, self.packages))


def owned_storage(job_id: str, environment: EnvironmentSpec, *made: str | None) -> OwnedStorage:
    """Return the storage of a job in an environment; ``made`` are names of buckets that it makes, None for none."""
    return OwnedStorage(
        job_id, environment.artifacts_bucket, frozenset(bucket for bucket in made if bucket), _closed(environment)
    )


def _closed(environment: EnvironmentSpec) -> Mapping[str, str]:
    """Return the environment's own buckets but the one of artifacts."""
    found: dict[str | None, str] = {}
    for block in (environment.driver, environment.reaper):
        url = block.backend_url if block is not None else None
        if url is not None and url.startswith("gs://"):
            found[_split(url)[0]] = "the engine's states"
    if environment.storage is not None:
        found[environment.storage.logs_bucket] = "the environment's logs"
    if environment.access is not None and environment.access.audit is not None and environment.access.audit.sink:
        found[environment.access.audit.sink.bucket] = "the environment's audit logs"
    return {bucket: holds for bucket, holds in found.items() if bucket is not None}


def _split(uri: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, name


def _is_plain(name: str) -> bool:
    """Whether a name of folders means itself also to those who read it as a path."""
    return not any(part in {"", ".", ".."} for part in name.rstrip("/").split("/"))
