"""The plan of a job: plain, frozen, comparable data.

Names of machines and accelerators are GKE's; ``requested`` keeps AI Platform's. Sizes are GiB, money US dollars.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.plan.machines.model import NodePoolPlan  # noqa: TC001 - its other users take it from here
from encamp.spec.encamp import IdentityMode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from encamp.duration import Duration
    from encamp.plan.access.model import AccessPlan
    from encamp.plan.cost.model import CostPlan
    from encamp.plan.egress import EgressPlan
    from encamp.plan.environment.api import ApiPlan
    from encamp.plan.environment.charts import ChartPlan
    from encamp.plan.environment.driver import DriverPlan
    from encamp.plan.environment.model import (
        BucketPlan,
        BudgetPlan,
        GkePlan,
        KeyPlan,
        LogExclusionPlan,
        ReaperPlan,
        VpcPlan,
    )
    from encamp.plan.environment.monitoring import MonitoringPlan
    from encamp.plan.environment.queues import QueuesPlan
    from encamp.plan.job_queue import JobQueuePlan
    from encamp.plan.manifests.mounts import MountPlan
    from encamp.plan.notices import NoticePlan
    from encamp.plan.policy import PolicyFinding
    from encamp.plan.study import StudyPlan
    from encamp.plan.trainer_imports import TrainerImports
    from encamp.spec.environment.model import Adoptable
    from encamp.spec.roles import Role


#: Seconds that a job's deadline grants beyond the cluster's own: to stop replicas, seal their logs and destroy.
TEARDOWN_ALLOWANCE_SECONDS = 1800


@dataclass(frozen=True)
class Accelerator:
    """GPUs or TPU chips of one machine: ``type`` as its owner writes it, ``count`` of 1 or more."""

    type: str
    count: int


@dataclass(frozen=True)
class RequestedMachine:
    """The requested machine in AI Platform's names, scale tiers resolved."""

    machine_type: str
    accelerator: Accelerator | None


@dataclass(frozen=True)
class ResourceAmounts:
    """The requests of one replica's container: milli-CPUs, MiB of memory, devices by resource name."""

    cpu_millis: int
    memory_mib: int
    devices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplicaGroupPlan:
    """All replicas of one role: they differ only in their index.

    Attributes:
        command: what the container runs, None for the image's own ENTRYPOINT.
        args: the argument vector after it, ``--job-dir`` included, None for the image's own CMD. A study's has no
            values of a trial.
        values_at: position in ``args`` at which a trial's values come; without a study it says nothing.
        env: environment of every replica, without TF_CONFIG and CLUSTER_SPEC.
        task_type: name of the role in TF_CONFIG (``chief`` or ``master``, ``worker``, ``ps``, ``evaluator``).
        package_uris: what is installed before the module runs, in this order.
        node_pool: name of the pool that hosts the group.
        custom_container: whether the image is the user's own, so that CLUSTER_SPEC is set beside TF_CONFIG.
        interpreter: Python that runs the module after the set-up, None if the container runs as it is.
        non_root: whether it runs as a user without rights instead of the image's own.
        resources: its requests; of memory also the limit.
        shared_memory_mib: size of ``/dev/shm``, which counts as its memory.
        locked_memory: whether it may raise its limit of locked memory, as TPUs want.
        rdma_nics: network interfaces with RDMA that each replica claims.
    """

    role: Role
    count: int
    requested: RequestedMachine
    machine_type: str
    accelerator: Accelerator | None
    image: str
    command: tuple[str, ...] | None
    args: tuple[str, ...] | None
    env: Mapping[str, str]
    task_type: str
    package_uris: tuple[str, ...]
    node_pool: str
    resources: ResourceAmounts
    custom_container: bool = False
    interpreter: str | None = None
    non_root: bool = False
    values_at: int = 0
    shared_memory_mib: int = 0
    locked_memory: bool = False
    rdma_nics: int = 0


@dataclass(frozen=True)
class ReplicaPlan:
    """One replica with everything resolved for its index, as ``encamp plan`` shows it."""

    name: str
    group: ReplicaGroupPlan
    index: int
    tf_config: Mapping[str, Any] | None


@dataclass(frozen=True)
class Grant:
    """One role for the job's account: on the project, or on a bucket, or on a part of that.

    Attributes:
        prefix: of the objects that it reaches, ending in ``/``; empty for all of the bucket.
        objects: names of the only objects that it reaches, where it has no prefix; empty for all.
        use: its purpose, if a bucket may get the same role for several reasons.
    """

    role: str
    bucket: str | None = None
    prefix: str = ""
    use: str = ""
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class IdentityPlan:
    """The identity of the replicas.

    Attributes:
        service_account: e-mail of the Google service account, None if the Kubernetes account itself is the
            member of every grant (Workload Identity Federation, direct).
        account_id: its id where the job makes it, None if a given one is used, or none.
        kubernetes_service_account: name of the Kubernetes account of the replicas.
        grants: what they may do.
    """

    service_account: str | None
    account_id: str | None
    kubernetes_service_account: str
    grants: tuple[Grant, ...]

    @property
    def mode(self) -> IdentityMode:
        """The kind of IAM identity."""
        return IdentityMode.DIRECT if self.service_account is None else IdentityMode.SERVICE_ACCOUNT


@dataclass(frozen=True)
class LocalPackage:
    """An archive on this machine: name, hexadecimal SHA-256, path, and the imports of the trainer in it, if known."""

    file_name: str
    sha256: str
    path: Path
    imports: TrainerImports | None = None


@dataclass(frozen=True)
class LocalPackagePlan:
    """An archive of this machine, uploaded with the job: its object, its digest and where the bytes are."""

    uri: str
    bucket: str
    object_name: str
    sha256: str
    file_name: str
    path: Path


@dataclass(frozen=True)
class StoragePlan:
    """The location of the job's data.

    Attributes:
        bucket: the environment's artifacts bucket; results, sealed logs and receipt lie below ``prefix`` of it.
        prefix: ``jobs/<jobId>/``.
        job_dir: the job dir, or None if the job has none.
        scratch_bucket: made for the job's packages, gone with it; None where these lie below ``prefix``.
        packages: what is uploaded from this machine, in the order of installation.
        results_bucket: a bucket made for the job that stays with its results, None if the job dir lies elsewhere.
        results_days: after how many days what the job leaves may be deleted, None if it is kept.
        folder: bucket and object that mark the job dir as a folder while the job may read nothing above it, None
            where it may, or where the folder is not encamp's to make.
        mounts: buckets that replicas see as files.
        key: Cloud KMS key of the buckets that the job makes, None for Google's own.
        soft_delete_days: how long what is deleted in a bucket of its results can be restored.
    """

    bucket: str
    prefix: str
    job_dir: str | None
    scratch_bucket: str | None
    packages: tuple[LocalPackagePlan, ...] = ()
    results_bucket: str | None = None
    results_days: int | None = None
    folder: tuple[str, str] | None = None
    mounts: tuple[MountPlan, ...] = ()
    key: str | None = None
    soft_delete_days: int = 0

    @property
    def staged(self) -> tuple[str, ...]:
        """``gs://`` names of packages of this machine in buckets that stay; the others go with the scratch bucket."""
        return tuple(package.uri for package in self.packages if package.bucket != self.scratch_bucket)


@dataclass(frozen=True)
class LimitsPlan:
    """The limits that end a job, whoever watches it.

    Attributes:
        max_running_time: counted from RUNNING; the driver cancels the job then.
        max_wait_time: longest wait for RUNNING, None for no limit.
        max_restarts: how often the whole job is tried again.
        max_replica_restarts: how often one replica is tried again before the whole job is.
        active_deadline_seconds: counted from the creation of the JobSet's jobs, in a queue from their admission; the
            cluster ends them then by itself.
        queue_seconds: how long it may wait in a queue before; no machine is there meanwhile.
    """

    max_running_time: Duration
    max_wait_time: Duration | None
    max_restarts: int
    max_replica_restarts: int
    active_deadline_seconds: int
    queue_seconds: int = 0

    @property
    def deadline_seconds(self) -> int:
        """Seconds, counted from when its machines may come, after which nothing of the job may exist."""
        return self.active_deadline_seconds + TEARDOWN_ALLOWANCE_SECONDS

    @property
    def expiry_seconds(self) -> int:
        """Seconds, counted from its creation, after which nothing of the job may exist."""
        return self.queue_seconds + self.deadline_seconds


@dataclass(frozen=True)
class ClusterPlan:
    """The TF_CONFIG cluster: task type to ``host:port`` of each index, the same on every replica."""

    tasks: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class JobPlan:
    """A training job, decided.

    Attributes:
        job_id: as the user knows it.
        name: short cloud name, at most 28 characters; every cloud name begins with it.
        region: the job's own; CLOUD_ML_REGION and the location of its bucket.
        stand_in_region: region of the environment's cluster where it stands in for the job's, None if it is the same.
        namespace: Kubernetes namespace of the environment's jobs.
        labels: owner, job and environment in the form that Google and Kubernetes both accept as label values.
        training_input: the job's TrainingInput as JSON data, keys in snake_case (TF_CONFIG's ``job``).
        requirements: what pip installs before the trainer where the image lacks it.
        cost: its cost.
        findings: rules of the environment that it breaks and may break; they are among the warnings too.
        bill_labels: the job file's own labels, which what is paid for carries beside ``labels``.
        queue: where it waits for its machines, None if it does not.
        egress: where its replicas may connect to; None if nobody decided.
        study: what its trials search for, None if it tunes nothing. Groups, replicas and the cluster's names are
            then those of one trial, node pools, limits and cost those of the whole job.
        trial: number of the trial that this is a plan of, None for a job.
        notices: who is told when it ends.
    """

    job_id: str
    name: str
    region: str
    project: str
    environment: str
    namespace: str
    groups: tuple[ReplicaGroupPlan, ...]
    cluster: ClusterPlan
    node_pools: tuple[NodePoolPlan, ...]
    identity: IdentityPlan
    storage: StoragePlan
    limits: LimitsPlan
    labels: Mapping[str, str]
    training_input: Mapping[str, Any]
    runtime_version: str | None = None
    python_version: str | None = None
    stand_in_region: str | None = None
    warnings: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    cost: CostPlan | None = None
    findings: tuple[PolicyFinding, ...] = ()
    bill_labels: Mapping[str, str] = field(default_factory=dict)
    queue: JobQueuePlan | None = None
    egress: EgressPlan | None = None
    study: StudyPlan | None = None
    trial: int | None = None
    notices: tuple[NoticePlan, ...] = ()

    @property
    def own_pools(self) -> tuple[NodePoolPlan, ...]:
        """Node pools that the job makes; the others are its environment's."""
        return tuple(pool for pool in self.node_pools if pool.shared_in is None)

    @property
    def shared_pools(self) -> tuple[NodePoolPlan, ...]:
        """Node pools of the environment that the job uses."""
        return tuple(pool for pool in self.node_pools if pool.shared_in is not None)

    @property
    def cluster_region(self) -> str:
        """The region of the cluster that runs the job, and so of its node pools."""
        return self.stand_in_region or self.region


@dataclass(frozen=True)
class EnvironmentPlan:
    """An environment, decided: the long-lived resources around jobs.

    Attributes:
        services: Google's APIs that it and its jobs ask.
        adopted: what exists already; it is read and never changed.
        image_cache: id of the repository through which images of Docker Hub come, None without one.
        shared_pools: node pools that the jobs of all queues share.
        protect: whether engine and GKE refuse to delete what must not be lost.
        warnings: what somebody should know before it is made.
        pod_admission: objects by which the API server judges pods of jobs; empty if their namespace's label says all.
    """

    name: str
    project: str
    region: str
    zones: tuple[str, ...]
    network: str
    subnetwork: str
    subnetwork_cidr: str
    pods_cidr: str
    services_cidr: str
    cluster: str
    artifacts_bucket: str
    registry: str
    namespace: str
    labels: Mapping[str, str]
    services: tuple[str, ...]
    vpc: VpcPlan
    gke: GkePlan
    artifacts: BucketPlan
    adopted: frozenset[Adoptable] = frozenset()
    protect: bool = False
    logs: BucketPlan | None = None
    log_exclusion: LogExclusionPlan | None = None
    image_cache: str | None = None
    key: KeyPlan | None = None
    budget: BudgetPlan | None = None
    warnings: tuple[str, ...] = ()
    reaper: ReaperPlan | None = None
    access: AccessPlan | None = None
    charts: tuple[ChartPlan, ...] = ()
    queues: QueuesPlan | None = None
    shared_pools: tuple[NodePoolPlan, ...] = ()
    monitoring: MonitoringPlan | None = None
    driver: DriverPlan | None = None
    api: ApiPlan | None = None
    pod_admission: tuple[Mapping[str, Any], ...] = ()


#: Label keys that every resource of a job carries (Google: lowercase letters, digits, ``_`` and ``-``).
OWNER_LABEL = "encamp-owner"
#: Label of a bucket that stays with a job's results, instead of the job's: what carries that one is taken down.
RESULTS_LABEL = "encamp-results"
JOB_LABEL = "encamp-job"
ENVIRONMENT_LABEL = "encamp-environment"
#: Label of what belongs to one trial of a job: its number.
TRIAL_LABEL = "encamp-trial"
DEADLINE_LABEL = "encamp-deadline"


def deadline_label(deadline: datetime) -> str:
    """Return the value of the deadline label: seconds since the epoch, UTC, rounded down."""
    return str(int(deadline.timestamp()))
