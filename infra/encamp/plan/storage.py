"""Storage of a job: results below a prefix or in a bucket that outlives it, the rest in a bucket that goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.access.ownership import job_prefix, owned_storage
from encamp.plan.environment.parts import plan_key
from encamp.plan.manifests.mounts import mounts
from encamp.plan.model import LocalPackagePlan, StoragePlan
from encamp.plan.names import results_bucket, scratch_bucket
from encamp.spec.encamp import StorageKind, StorageSpec
from encamp.spec.environment.storage import StorageSpec as EnvironmentStorageSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.access.ownership import OwnedStorage
    from encamp.plan.model import LocalPackage
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec


#: Warning about a job without a job dir.
NO_OUTPUT = "no job dir: what the job writes on its machines is lost; --keep-output or a jobDir keeps it"


def storage(
    job: TrainingJobSpec,
    job_id: str,
    name: str,
    environment: EnvironmentSpec,
    packages: Sequence[LocalPackage],
    *,
    scratch: bool = True,
) -> StoragePlan:
    """Return the storage of a job. A trailing ``/`` of a job dir stays as the user wrote it.

    Args:
        job: the job.
        job_id: its id.
        name: its short name.
        environment: where it runs.
        packages: its archives on this machine.
        scratch: whether it has a bucket of its own for them; else they lie beside its results until its end.

    Raises:
        PlanError: the job file names what is another's, or mounts what cannot be mounted.
    """
    scratch_name = scratch_bucket(environment.project, environment.name, job_id, name) if scratch else None
    wanted, key = wanted_storage(job, environment), plan_key(environment)
    own = None
    if wanted is not None and wanted.kind is StorageKind.OWN_BUCKET:
        own = results_bucket(environment.project, environment.name, job_id, name)
    owned = owned_storage(job_id, environment, scratch_name, own)
    chosen = _job_dir(wanted, job_id, owned, own)
    job_dir = chosen or job.training_input.job_dir
    _check_places(job, job_dir, owned, field="encamp.storage.bucket" if chosen else "trainingInput.jobDir")
    return StoragePlan(
        bucket=environment.artifacts_bucket,
        prefix=job_prefix(job_id),
        job_dir=job_dir,
        scratch_bucket=scratch_name,
        packages=tuple(_local(package, _staging(job, scratch_name, owned)) for package in packages),
        results_bucket=own,
        results_days=_results_days(job, environment, own),
        folder=_folder(job, job_dir, environment.artifacts_bucket),
        key=key.full_name if key is not None else None,
        soft_delete_days=(environment.storage or EnvironmentStorageSpec()).soft_delete_days,
        mounts=mounts(job.encamp.mounts or (), job_dir, owned),
    )


def storage_warnings(job: TrainingJobSpec, environment: EnvironmentSpec, placed: StoragePlan) -> list[str]:
    """Return warnings about output that is lost, and about retentions that the environment shortens."""
    found: list[str] = []
    if placed.job_dir is None and all(mount.read_only for mount in placed.mounts):
        found.append(NO_OUTPUT)
    asked = job.encamp.retention.results_days if job.encamp.retention else None
    if asked is None:
        return found
    most = environment.artifacts_retention_days
    if most is not None and most < asked:
        found.append(
            f"the environment {environment.name} deletes after {most} days what lies in its bucket; "
            f"resultsDays {asked} makes that no longer"
        )
    if placed.job_dir is not None and not encamp_owns(placed):
        found.append(
            f"resultsDays does not reach {placed.job_dir}: that bucket is not encamp's to delete from; "
            "only logs and receipt go"
        )
    return found


def encamp_owns(placed: StoragePlan) -> bool:
    """Whether the job dir lies in the artifacts bucket's part of this job, or in a bucket made for the job."""
    own = (f"gs://{placed.bucket}/{placed.prefix}", f"gs://{placed.results_bucket}/")
    return placed.job_dir is not None and placed.job_dir.startswith(own)


def wanted_storage(job: TrainingJobSpec, environment: EnvironmentSpec) -> StorageSpec | None:
    """Return the storage that the job file asks for, else the environment's default for jobs without a job dir."""
    by_default = environment.storage is not None and environment.storage.keep_output
    if by_default and job.encamp.storage is None and job.training_input.job_dir is None:
        return StorageSpec(kind=StorageKind.ENVIRONMENT)
    return job.encamp.storage


def _check_places(job: TrainingJobSpec, job_dir: str | None, owned: OwnedStorage, *, field: str) -> None:
    """Refuse every place of the job file that is another's."""
    if job_dir is not None:
        owned.check_folder(job_dir, field)
    if job.encamp.staging_bucket is not None:
        owned.check_bucket(_bucket(job.encamp.staging_bucket), "encamp.stagingBucket")
    for index, uri in enumerate(job.training_input.package_uris or ()):
        owned.check_object(uri, f"trainingInput.packageUris[{index}]")


def _job_dir(wanted: StorageSpec | None, job_id: str, owned: OwnedStorage, own: str | None) -> str | None:
    """Return the job dir that ``encamp.storage`` asks for, None if the job file names one itself or none at all."""
    if wanted is None or wanted.kind is None:
        return None
    if wanted.kind is StorageKind.ENVIRONMENT:
        return f"gs://{owned.artifacts}/{owned.output.rstrip('/')}"
    if own is not None:
        return f"gs://{own}/output"
    folder = f"{wanted.prefix}/" if wanted.prefix else ""
    return f"gs://{wanted.bucket}/{folder}{job_id}"


def _folder(job: TrainingJobSpec, job_dir: str | None, artifacts: str) -> tuple[str, str] | None:
    """Return the object that marks the job dir as a folder, where the job's account is limited to the folder."""
    wanted = job.encamp.storage.kind if job.encamp.storage else None
    given = wanted is StorageKind.GIVEN_BUCKET and job.training_input.service_account is None
    bucket, _, name = (job_dir or "").removeprefix("gs://").partition("/")
    name = name.rstrip("/")
    return (bucket, f"{name}/") if name and (given or bucket == artifacts) else None


def _results_days(job: TrainingJobSpec, environment: EnvironmentSpec, own: str | None) -> int | None:
    """Return the shorter of what the job asks for and what its environment grants; None where both keep for ever.

    The environment's rule is its artifacts bucket's; a bucket of the job's own is emptied only where the job says so.
    """
    asked = job.encamp.retention.results_days if job.encamp.retention else None
    if own is not None:
        return asked
    return min((days for days in (asked, environment.artifacts_retention_days) if days is not None), default=None)


def _staging(job: TrainingJobSpec, scratch: str | None, owned: OwnedStorage) -> tuple[str, str]:
    """Return the bucket and folder of packages of this machine; in a staging bucket by the old client's own scheme."""
    staging = _bucket(job.encamp.staging_bucket) if job.encamp.staging_bucket is not None else None
    if staging not in {None, owned.artifacts}:
        return str(staging), owned.job_id
    if staging is None and scratch is not None:
        return scratch, "packages"
    return owned.artifacts, owned.packages.rstrip("/")


def _bucket(uri: str) -> str:
    return uri.removeprefix("gs://").partition("/")[0]


def _local(package: LocalPackage, staging: tuple[str, str]) -> LocalPackagePlan:
    """Return a local package with the object that it is uploaded to."""
    bucket, folder = staging
    name = f"{folder}/{package.sha256}/{package.file_name}"
    return LocalPackagePlan(f"gs://{bucket}/{name}", bucket, name, package.sha256, package.file_name, package.path)
