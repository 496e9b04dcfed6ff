"""Where a job's data lies: results below a prefix that outlives it, the rest in a bucket that goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.model import LocalPackagePlan, StoragePlan
from encamp.plan.names import scratch_bucket
from encamp.spec.encamp import StorageKind

if TYPE_CHECKING:
    from encamp.plan.package import LocalPackage
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec


def job_prefix(job_id: str) -> str:
    """The prefix of a job's results, logs and receipt in the artifacts bucket."""
    return f"jobs/{job_id}/"


def storage(
    job: TrainingJobSpec, job_id: str, environment: EnvironmentSpec, package: LocalPackage | None
) -> StoragePlan:
    """The storage of a job. A trailing ``/`` of a job dir stays as the user wrote it."""
    scratch = scratch_bucket(environment.project, environment.name, job_id)
    job_dir = job.training_input.job_dir
    if job.encamp.storage is not None and job.encamp.storage.kind is StorageKind.ENVIRONMENT:
        job_dir = f"gs://{environment.artifacts_bucket}/{job_prefix(job_id)}output"
    return StoragePlan(
        bucket=environment.artifacts_bucket,
        prefix=job_prefix(job_id),
        job_dir=job_dir,
        scratch_bucket=scratch,
        package=_local(package, scratch) if package is not None else None,
    )


def _local(package: LocalPackage, bucket: str) -> LocalPackagePlan:
    name = f"packages/{package.sha256}/{package.file_name}"
    return LocalPackagePlan(f"gs://{bucket}/{name}", bucket, name, package.sha256, package.file_name)
