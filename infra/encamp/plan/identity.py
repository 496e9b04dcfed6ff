"""Who a job's replicas are, and what they may do: as little as training needs, on nothing but the job's own data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.model import Grant, IdentityPlan, StoragePlan
from encamp.plan.names import service_account_email

if TYPE_CHECKING:
    from encamp.spec.training import TrainingInputSpec

OBJECT_ADMIN = "roles/storage.objectAdmin"
OBJECT_USER = "roles/storage.objectUser"
OBJECT_VIEWER = "roles/storage.objectViewer"
#: What a replica needs on the project: to write logs and metrics, and to have its image pulled.
PROJECT_ROLES = ("roles/logging.logWriter", "roles/monitoring.metricWriter", "roles/artifactregistry.reader")


def identity(name: str, project: str, training_input: TrainingInputSpec, storage: StoragePlan) -> IdentityPlan:
    """The job's account.

    A job makes an account of its own. A given one keeps what its owner gave it and gets the job's own data only:
    roles on the project or on the user's buckets are its owner's to give.
    """
    own = [Grant(OBJECT_ADMIN, storage.bucket, storage.prefix), Grant(OBJECT_ADMIN, storage.scratch_bucket)]
    given = training_input.service_account
    if given is not None:
        return IdentityPlan(given, None, name, tuple(own))
    grants = [*own, *_user_grants(training_input, storage), *(Grant(role) for role in PROJECT_ROLES)]
    return IdentityPlan(service_account_email(name, project), name, name, tuple(grants))


def _user_grants(training_input: TrainingInputSpec, storage: StoragePlan) -> list[Grant]:
    """Writing to the bucket of a job dir of the user's own, reading from the buckets of the packages."""
    grants: list[Grant] = []
    job_dir = _bucket(training_input.job_dir)
    if job_dir is not None and job_dir != storage.bucket:
        grants.append(Grant(OBJECT_USER, job_dir))
    packages = {_bucket(uri) for uri in training_input.package_uris or ()} - {None, job_dir, storage.scratch_bucket}
    grants.extend(Grant(OBJECT_VIEWER, bucket) for bucket in sorted(str(bucket) for bucket in packages))
    if job_dir == storage.bucket and training_input.job_dir is not None:
        prefix = training_input.job_dir.removeprefix("gs://").partition("/")[2].rstrip("/")
        grants.append(Grant(OBJECT_USER, job_dir, f"{prefix}/" if prefix else ""))
    return grants


def _bucket(path: str | None) -> str | None:
    return path.removeprefix("gs://").partition("/")[0] if path is not None else None
