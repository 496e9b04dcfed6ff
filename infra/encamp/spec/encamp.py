"""encamp's own block of a job file: options that AI Platform Training had no field for.

Old files have no such block. Its rules are E01-E25, in ``rules/``.
"""

from __future__ import annotations

from enum import StrEnum

from encamp.spec.fields import (
    CommandFlag,
    Double,
    DurationText,
    Flag,
    FlagGroup,
    Int64,
    Text,
    Written,
    declared_fields,
    field,
)


class GpuType(StrEnum):
    """GPUs that Google Cloud offers today, in Compute Engine's names in capitals."""

    NVIDIA_TESLA_P4 = "NVIDIA_TESLA_P4"
    NVIDIA_TESLA_T4 = "NVIDIA_TESLA_T4"
    NVIDIA_TESLA_P100 = "NVIDIA_TESLA_P100"
    NVIDIA_TESLA_V100 = "NVIDIA_TESLA_V100"
    NVIDIA_L4 = "NVIDIA_L4"
    NVIDIA_TESLA_A100 = "NVIDIA_TESLA_A100"
    NVIDIA_A100_80GB = "NVIDIA_A100_80GB"
    NVIDIA_H100_80GB = "NVIDIA_H100_80GB"
    NVIDIA_H100_MEGA_80GB = "NVIDIA_H100_MEGA_80GB"
    NVIDIA_H200_141GB = "NVIDIA_H200_141GB"
    NVIDIA_B200 = "NVIDIA_B200"
    NVIDIA_GB200 = "NVIDIA_GB200"


class TpuVersion(StrEnum):
    """Generations of Cloud TPU that GKE offers."""

    V3 = "v3"
    V4 = "v4"
    V5E = "v5e"
    V5P = "v5p"
    V6E = "v6e"
    TPU7X = "7x"


class BootDisk(StrEnum):
    """Kinds of boot disk of today's machines."""

    PD_STANDARD = "pd-standard"
    PD_BALANCED = "pd-balanced"
    PD_SSD = "pd-ssd"
    HYPERDISK_BALANCED = "hyperdisk-balanced"


class Provisioning(StrEnum):
    """The provisioning model of machines, and so their price."""

    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    FLEX_START = "FLEX_START"
    QUEUED = "QUEUED"
    RESERVATION = "RESERVATION"


class Placement(StrEnum):
    """The placement of a role's machines: anywhere, or close together."""

    ANY = "ANY"
    COMPACT = "COMPACT"


class RunAs(StrEnum):
    """The user that a replica runs as in its container."""

    IMAGE = "IMAGE"
    NON_ROOT = "NON_ROOT"


#: Machines that Google starts when it has capacity, and ends after 7 days.
WHEN_THERE_IS_ROOM = frozenset({Provisioning.FLEX_START, Provisioning.QUEUED})


class IdentityMode(StrEnum):
    """The kind of IAM identity that replicas have."""

    SERVICE_ACCOUNT = "SERVICE_ACCOUNT"
    DIRECT = "DIRECT"


class Substitutions(StrEnum):
    """Whether something else may stand for a machine that Google no longer offers."""

    ALLOWED = "allowed"
    NEVER = "never"


class StorageKind(StrEnum):
    """The owner of the bucket that the job dir lies in."""

    ENVIRONMENT = "ENVIRONMENT"
    OWN_BUCKET = "OWN_BUCKET"
    GIVEN_BUCKET = "GIVEN_BUCKET"


class EndState(StrEnum):
    """How a job can end."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class GpuSpec(Written):
    """GPUs of each machine of a role."""

    type: GpuType | None = None
    """Kind of GPU."""
    count: Int64 | None = field(1, rule="E04")
    """Number of GPUs on each machine; 1 when absent."""


class TpuSpec(Written):
    """The TPU slice of a role: its shape, or how many chips it has."""

    version: TpuVersion | None = field(rule="E03")
    """Generation of the TPU."""
    topology: Text | None = None
    """Shape of the slice in chips, such as ``2x4`` or ``2x2x2``; excludes chips."""
    chips: Int64 | None = None
    """Number of chips of the whole slice; excludes topology."""


class BootDiskSpec(Written):
    """Boot disk of each machine of a role."""

    type: BootDisk | None = None
    """``pd-ssd`` when absent, ``hyperdisk-balanced`` on machines that take nothing else."""
    size_gb: Int64 | None = field(100)
    """Size in GB; 100 when absent."""


class MachineSpec(Written):
    """The machine of a role as Google Cloud offers it today; wins over AI Platform's type and accelerator."""

    machine_type: Text | None = field(rule="E15")
    """Compute Engine machine type; the smallest that has the accelerator when absent."""
    gpu: GpuSpec | None = field(rule="E03")
    """GPUs of each machine."""
    tpu: TpuSpec | None = field(rule="E05")
    """The TPU slice whose hosts are the replicas of the role."""
    boot_disk: BootDiskSpec | None = field(rule="E15")
    """Boot disk; wins over diskConfig."""


class MachinesSpec(Written):
    """Today's machines, by role. Needs scaleTier CUSTOM."""

    master: MachineSpec | None = None
    """Machine of the master; masterType may then be left out."""
    worker: MachineSpec | None = None
    """Machines of the workers; workerType may then be left out."""
    parameter_server: MachineSpec | None = None
    """Machines of the parameter servers; parameterServerType may then be left out."""
    evaluator: MachineSpec | None = None
    """Machines of the evaluators; evaluatorType may then be left out."""


class BudgetSpec(Written):
    """The cost limit of a job."""

    usd: Double | None = None
    """US dollars, by the prices of the environment. A job whose worst case, restarts included, costs more is refused;
    without a maxRunningTime the running time is cut to what the budget pays for."""


class RetentionSpec(Written):
    """The retention of everything that a job leaves behind."""

    results_days: Int64 | None = None
    """Results, logs and receipt are deleted after so many days; kept when absent."""


class IdentitySpec(Written):
    """The IAM identity of the replicas."""

    mode: IdentityMode | None = None
    """``DIRECT``: the Kubernetes service account itself, by Workload Identity Federation, without a Google account.
    ``SERVICE_ACCOUNT``: a Google service account of the job's own. When absent in a job: the environment's; when absent
    there too: ``DIRECT``. A job with trainingInput.serviceAccount runs as that account in either case."""


class StorageSpec(Written):
    """The location of the job dir when trainingInput.jobDir does not give one."""

    kind: StorageKind | None = None
    """``ENVIRONMENT``: a folder of the job's own in the environment's artifacts bucket. ``OWN_BUCKET``: a bucket made
    for this job, which stays with its results. ``GIVEN_BUCKET``: a folder below a prefix of a bucket that exists."""
    bucket: Text | None = None
    """Name of the given bucket; GIVEN_BUCKET only."""
    prefix: Text | None = None
    """Folder of the given bucket below which the job's own folder lies; GIVEN_BUCKET only."""


class MountSpec(Written):
    """A bucket, or a part of one, as files of every replica."""

    bucket: Text | None = None
    """Name of the bucket; its objects are files below ``/gcs/BUCKET``. Excludes jobDir."""
    prefix: Text | None = None
    """Folder of the bucket that alone is mounted, at ``/gcs/BUCKET/PREFIX``; the whole bucket when absent."""
    job_dir: Flag = False
    """True: the job dir, at its own place below ``/gcs``, for reading and writing. Excludes bucket."""
    write: Flag = False
    """True: replicas may write to the bucket; they may only read it when absent."""
    options: list[Text] | None = None
    """Mount options of Cloud Storage FUSE, such as ``metadata-cache:ttl-secs:600``."""


class NoticeSpec(Written):
    """Somebody who is told when the job ends."""

    target: Text | None = None
    """Name of a target in the environment's ``notices``; never a URL."""
    states: list[EndState] | None = None
    """Ends that are told, such as ``[FAILED]``; when absent, those that the environment's target says."""


class EncampSpec(Written):
    """Options that AI Platform Training had no field for."""

    package_path: Text | None = field(
        rule="E12", flag=CommandFlag("FOLDER", FlagGroup.CODE, help="Folder of the trainer package."), local=True
    )
    """Folder of the trainer package, relative to the job file; it is packed and uploaded with the job."""
    packages: list[Text] | None = field(
        rule="E12", flag=CommandFlag("A,B,...", FlagGroup.CODE, help="Packages: gs:// paths or files."), local=True
    )
    """Packages on this machine (wheels, source archives), relative to the job file; uploaded and installed before the
    trainer."""
    requirements: list[Text] | None = field(
        rule="E13",
        flag=CommandFlag(
            "REQUIREMENT",
            FlagGroup.CODE,
            name="requirement",
            help="What pip installs where the image lacks it, such as 'pandas>=2', beside the file's own; repeatable.",
            adds=True,
        ),
    )
    """Requirements that pip installs before the trainer if the image lacks them, such as ``pandas>=2``."""
    staging_bucket: Text | None = field(
        rule="E12",
        flag=CommandFlag("gs://BUCKET", FlagGroup.PLACES),
    )
    """Bucket that packages of this machine are uploaded to, such as ``gs://my-bucket``; the job's scratch bucket when
    absent. They are deleted with the job either way."""
    machines: MachinesSpec | None = field(rule="E02")
    """Today's machines, GPUs and TPUs, by role."""
    provisioning: Provisioning | None = field(Provisioning.ON_DEMAND, rule="E07")
    """How machines are provisioned: ``ON_DEMAND``, ``SPOT``, ``FLEX_START`` (when there is capacity, at most 7 days),
    ``QUEUED`` (all at once, when there is capacity), ``RESERVATION``."""
    reservation: Text | None = field(rule="E07")
    """Name of the reservation; RESERVATION only."""
    zone: Text | None = field(rule="E21")
    """The one zone of the job's machines, such as ``us-central1-b``; where it is absent, every zone of the region that
    has them. A reservation and COMPACT need one."""
    placement: Placement | None = field(Placement.ANY, rule="E22")
    """``COMPACT``: the machines of a role stand close together in one zone, for traffic between replicas. TPU slices
    of several hosts always do."""
    queue: Text | None = field(rule="E16")
    """The team's queue of the environment that the job waits in until all of its machines are within the quota."""
    priority: Text | None = field(rule="E16")
    """Name of one of the environment's priorities of queues; by trainingInput.scheduling.priority when absent."""
    image_streaming: Flag = False
    """True: containers start while their image is still being read (GKE image streaming)."""
    mounts: list[MountSpec] | None = field(rule="E20")
    """Buckets that replicas see as files below ``/gcs``."""
    run_as: RunAs | None = None
    """``NON_ROOT``: as a user without rights, in a working directory of its own. ``IMAGE``: as the image says, often
    root, such as a setup.py with apt-get needs. When absent: NON_ROOT, but IMAGE for images of the job's own and on
    TPUs."""
    budget: BudgetSpec | None = field(rule="E09")
    """The cost limit of the job."""
    expected_time: DurationText | None = field(rule="E17")
    """How long one run, of a tuning job all its trials, is expected to take, such as ``5400s``; its cost is shown
    beside the worst case. When absent, scheduling.maxRunningTime makes that cost a ceiling; without both only an hour
    is priced. It ends nothing."""
    retention: RetentionSpec | None = field(rule="E10")
    """How long results, logs and receipt are kept."""
    identity: IdentitySpec | None = field(rule="E14")
    """The IAM identity of the replicas."""
    substitutions: Substitutions | None = field(Substitutions.ALLOWED)
    """``allowed`` (default): resources that Google no longer offers are replaced, with a warning. ``never``: the job is
    refused."""
    storage: StorageSpec | None = field(
        rule="E11",
        flag=CommandFlag(
            "",
            FlagGroup.PLACES,
            name="keep-output",
            help="Without a job dir: write to jobs/<id>/output of the environment's bucket, passed on as --job-dir.",
            switch={"kind": StorageKind.ENVIRONMENT.value},
        ),
    )
    """Location of the job dir."""
    egress: list[Text] | None = field(rule="E24")
    """Networks that replicas connect to beyond each other, Google and the public web, such as ``10.4.0.0/16`` of a
    database; the environment's ``jobEgress`` has to allow them."""
    notices: list[NoticeSpec] | None = None
    """Who is told when the job ends, beside those whom the environment tells of every job."""


#: Fields that name files of the machine that the job file lies on.
LOCAL_FIELDS = declared_fields(EncampSpec, lambda said: said.local)
