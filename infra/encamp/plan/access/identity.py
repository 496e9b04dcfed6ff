"""The identity and grants of a job's replicas: as few as training needs, on nothing but the job's own data.

By default they are their Kubernetes account itself (belief: ``iam-direct-principal-of-a-pod``), which takes no quota of
service accounts. What such a principal cannot do is on the page of the option (beliefs:
``iam-federated-identities-cannot-sign``, ``iam-perimeters-by-service-account``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.access.ownership import owned_storage
from encamp.plan.model import Grant, IdentityPlan, StoragePlan
from encamp.plan.names import service_account_email
from encamp.spec.encamp import IdentityMode, StorageKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from encamp.plan.access.ownership import OwnedStorage
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec

OBJECT_ADMIN = "roles/storage.objectAdmin"
OBJECT_USER = "roles/storage.objectUser"
OBJECT_VIEWER = "roles/storage.objectViewer"
#: TensorFlow asks for the bucket itself before it makes a folder, which no object role allows.
BUCKET_READER = "roles/storage.legacyBucketReader"
#: Project roles of a replica: to write logs and metrics. Its image is pulled by its machine, as the account of
#: that, which may read the environment's registry (cloud.google.com/artifact-registry/docs/integrate-gke).
PROJECT_ROLES = ("roles/logging.logWriter", "roles/monitoring.metricWriter")
#: Objects that one condition names: with the deadline it stays within the 12 operators that IAM takes.
_OBJECTS_A_GRANT = 10


def identity(
    name: str,
    environment: EnvironmentSpec,
    job: TrainingJobSpec,
    storage: StoragePlan,
    kept: IdentityMode | None = None,
) -> IdentityPlan:
    """Decide who the job's replicas are.

    In mode DIRECT the Kubernetes account is the member of every grant, and nothing is made at Google. In mode
    SERVICE_ACCOUNT the job makes an account. A given account keeps what its owner gave it and gets the job's own data
    only: roles on the project or on the user's buckets are its owner's to give. ``kept`` is the mode that the job has
    already, None for a new one.

    Raises:
        PlanError: the job asks for an account, and the environment allows none.
    """
    owned = owned_storage(job.job_id or "", environment, storage.scratch_bucket, storage.results_bucket)
    own = [Grant(OBJECT_USER, storage.bucket, owned.output), *_staged(job, storage, owned)]
    if storage.scratch_bucket is not None:
        own.append(Grant(OBJECT_ADMIN, storage.scratch_bucket))
    if storage.results_bucket is not None:
        own += [Grant(OBJECT_USER, storage.results_bucket), Grant(BUCKET_READER, storage.results_bucket)]
    given = job.training_input.service_account
    if given is not None:
        return IdentityPlan(given, None, name, tuple(own))
    grants = (*own, *_user_grants(job, storage, owned), *(Grant(role) for role in PROJECT_ROLES))
    if identity_mode(job, environment, kept) is IdentityMode.DIRECT:
        return IdentityPlan(None, None, name, grants)
    if environment.access is not None and environment.access.own_accounts is False:
        raise PlanError(
            f"the environment {environment.name} allows jobs no service accounts of their own (access.ownAccounts)",
            where="encamp.identity.mode",
            hint="write DIRECT, or name an account in trainingInput.serviceAccount",
        )
    return IdentityPlan(service_account_email(name, environment.project), name, name, grants)


def identity_mode(job: TrainingJobSpec, environment: EnvironmentSpec, kept: IdentityMode | None = None) -> IdentityMode:
    """Return the mode of a job without a given account.

    Its file's, else the one that it has already, else the environment's.
    """
    asked = job.encamp.identity.mode if job.encamp.identity is not None else None
    return asked or kept or default_mode(environment)


def default_mode(environment: EnvironmentSpec) -> IdentityMode:
    """Return the mode of jobs whose files name none."""
    named = environment.identity.mode if environment.identity is not None else None
    return named or IdentityMode.DIRECT


def identity_warnings(plan: IdentityPlan, environment: EnvironmentSpec) -> list[str]:
    """Return a warning if teams and drivers of the environment may not create an account for the job."""
    access = environment.access
    unsaid = access is not None and bool(access.teams) and access.own_accounts is None
    if plan.account_id is None or not unsaid or default_mode(environment) is IdentityMode.SERVICE_ACCOUNT:
        return []
    lacking = "the job makes a service account of its own, which teams and drivers of the environment may not"
    return [f"{lacking}: use mode DIRECT, start it with other rights, or write access.ownAccounts: true"]


def granted_buckets(plan: JobPlan) -> tuple[str, ...]:
    """Return buckets beside the artifacts bucket that outlive the job and in whose policies it gets bindings."""
    gone = {None, plan.storage.bucket, plan.storage.scratch_bucket}
    return tuple(sorted(str(bucket) for bucket in {grant.bucket for grant in plan.identity.grants} - gone))


def workload_principal(plan: JobPlan, project_number: str) -> str:
    """Return the job's Kubernetes account as a member of IAM bindings.

    Source: cloud.google.com/iam/docs/principal-identifiers, "All Google Kubernetes Engine Pods that use a specific
    service account".
    """
    pool = f"projects/{project_number}/locations/global/workloadIdentityPools/{plan.project}.svc.id.goog"
    subject = f"ns/{plan.namespace}/sa/{plan.identity.kubernetes_service_account}"
    return f"principal://iam.googleapis.com/{pool}/subject/{subject}"


def _staged(job: TrainingJobSpec, storage: StoragePlan, owned: OwnedStorage) -> Iterator[Grant]:
    """Yield the right to read packages that lie beside the job's results."""
    uris = (*(job.training_input.package_uris or ()), *(each.uri for each in storage.packages))
    if any(uri.startswith(f"gs://{owned.artifacts}/{owned.packages}") for uri in uris):
        yield Grant(OBJECT_VIEWER, owned.artifacts, owned.packages, use="packages")


def _user_grants(job: TrainingJobSpec, storage: StoragePlan, owned: OwnedStorage) -> list[Grant]:
    """Return grants on the user's own buckets: to write to the job dir, and to read the packages.

    A job dir that the user names is the user's choice of a place, and code may keep more beside it; a folder that
    encamp chose is limited to itself. The artifacts bucket's is in every job's own grants.
    """
    job_dir = _bucket(storage.job_dir) if not owned.owns(storage.job_dir or "") else None
    chosen = job.encamp.storage is not None and job.encamp.storage.kind is StorageKind.GIVEN_BUCKET
    grants: list[Grant] = []
    if job_dir is not None and (chosen or job.training_input.job_dir is not None):
        grants.append(Grant(OBJECT_USER, job_dir, _below(storage) if chosen else ""))
        if not chosen:
            grants.append(Grant(BUCKET_READER, job_dir))
    readable = {storage.bucket, storage.scratch_bucket, *(grant.bucket for grant in grants if not grant.prefix)}
    uris = (*(job.training_input.package_uris or ()), *(each.uri for each in storage.packages))
    packages = {str(_bucket(uri)) for uri in uris} - readable
    viewed = [Grant(OBJECT_VIEWER, bucket) for bucket in sorted(packages)]
    return [
        *grants,
        *viewed,
        *_shared_packages(uris, owned),
        *_mount_grants(storage, {(each.role, each.bucket) for each in grants + viewed}),
    ]


def _shared_packages(uris: Iterable[str], owned: OwnedStorage) -> Iterator[Grant]:
    """Yield the right to read packages of the artifacts bucket that belong to no job, each by its own name."""
    start = f"gs://{owned.artifacts}/"
    names = sorted({uri.removeprefix(start) for uri in uris if uri.startswith(start) and not owned.owns(uri)})
    for begin in range(0, len(names), _OBJECTS_A_GRANT):
        objects = tuple(names[begin : begin + _OBJECTS_A_GRANT])
        yield Grant(OBJECT_VIEWER, owned.artifacts, use=f"packages-{begin}", objects=objects)


def _mount_grants(storage: StoragePlan, known: set[tuple[str, str | None]]) -> list[Grant]:
    """Return the grants that mounted buckets need and nothing else gives: to read them, or to write to them too.

    On the whole bucket, also where a folder of it is mounted: a condition needs uniform access, which a bucket of
    somebody else's may lack.
    """
    found: list[Grant] = []
    for mount in storage.mounts:
        role = OBJECT_VIEWER if mount.read_only else OBJECT_USER
        if not mount.is_job_dir and (role, mount.bucket) not in known and (OBJECT_USER, mount.bucket) not in known:
            found.append(Grant(role, mount.bucket, use="mount"))
    return found


def _below(storage: StoragePlan) -> str:
    """Return the job dir's part of its bucket as a prefix of objects, empty for the whole bucket."""
    folder = str(storage.job_dir).removeprefix("gs://").partition("/")[2].rstrip("/")
    return f"{folder}/" if folder else ""


def _bucket(path: str | None) -> str | None:
    return path.removeprefix("gs://").partition("/")[0] if path is not None else None
