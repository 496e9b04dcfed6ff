"""TrainingInput as written: every field that AI Platform Training took. Rules between fields are in ``rules``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from encamp.duration import Duration
from encamp.spec.fields import CommandFlag, DurationText, Flag, FlagGroup, Int32, Int64, Text, Written, field
from encamp.spec.tuning import HyperparameterSpec


class ScaleTier(StrEnum):
    """A ready-made set of machines, or CUSTOM."""

    BASIC = "BASIC"
    STANDARD_1 = "STANDARD_1"
    PREMIUM_1 = "PREMIUM_1"
    BASIC_GPU = "BASIC_GPU"
    BASIC_TPU = "BASIC_TPU"
    CUSTOM = "CUSTOM"


class AcceleratorType(StrEnum):
    """GPUs and TPUs in AI Platform's names."""

    ACCELERATOR_TYPE_UNSPECIFIED = "ACCELERATOR_TYPE_UNSPECIFIED"
    NVIDIA_TESLA_K80 = "NVIDIA_TESLA_K80"
    NVIDIA_TESLA_P100 = "NVIDIA_TESLA_P100"
    NVIDIA_TESLA_V100 = "NVIDIA_TESLA_V100"
    NVIDIA_TESLA_P4 = "NVIDIA_TESLA_P4"
    NVIDIA_TESLA_T4 = "NVIDIA_TESLA_T4"
    NVIDIA_TESLA_A100 = "NVIDIA_TESLA_A100"
    TPU_V2 = "TPU_V2"
    TPU_V3 = "TPU_V3"
    TPU_V2_POD = "TPU_V2_POD"
    TPU_V3_POD = "TPU_V3_POD"
    TPU_V4_POD = "TPU_V4_POD"


class BootDiskType(StrEnum):
    """Kind of a machine's boot disk."""

    PD_SSD = "pd-ssd"
    PD_STANDARD = "pd-standard"


class Strategy(StrEnum):
    """Whether machines may be taken away for a lower price."""

    STRATEGY_UNSPECIFIED = "STRATEGY_UNSPECIFIED"
    ON_DEMAND = "ON_DEMAND"
    LOW_COST = "LOW_COST"


class AcceleratorConfig(Written):
    """GPUs or TPUs attached to each machine of a role."""

    type: AcceleratorType | None = field(rule="V07")
    """Kind of accelerator."""
    count: Int64 | None = None
    """Number of accelerators on each machine."""


class DiskConfig(Written):
    """Boot disk of each machine of a role."""

    boot_disk_type: BootDiskType | None = field(BootDiskType.PD_SSD)
    """``pd-ssd`` when absent."""
    boot_disk_size_gb: Int32 | None = field(100)
    """Size in GB; 100 when absent."""


class ReplicaConfig(Written):
    """Options of one role's machines and container."""

    accelerator_config: AcceleratorConfig | None = field(
        rule="V07",
        flag=CommandFlag(
            "type=T,count=N", FlagGroup.MACHINES, name="accelerator", help="GPUs of each machine of {whose}."
        ),
    )
    """Accelerators of each machine; Compute Engine machine types only."""
    image_uri: Text | None = field(flag=CommandFlag("IMAGE", FlagGroup.MACHINES, help="Container image of {whose}."))
    """Container image; workers, parameter servers and evaluators without one take the master's."""
    container_command: list[Text] | None = None
    """Replaces the image's ENTRYPOINT and CMD."""
    container_args: list[Text] | None = None
    """Replaces the image's CMD."""
    tpu_tf_version: Text | None = field(rule="V17")
    """Runtime version of TensorFlow on a TPU worker with a custom image."""
    disk_config: DiskConfig | None = None
    """Boot disk."""


class Scheduling(Written):
    """Start, length and priority of the job."""

    max_running_time: DurationText | None = field(Duration.of(604_800), rule="V13")
    """Longest run, such as ``7200s``; 7 days when absent."""
    max_wait_time: DurationText | None = field(rule="V13")
    """Longest wait before RUNNING, at least ``1800s``; without limit when absent."""
    priority: Int32 | None = field(0, rule="V14")
    """0 to 1000, larger first among waiting jobs."""
    resilient_to_worker_restart: Flag | None = field(False)
    """True: one worker's restart restarts the whole job."""
    strategy: Strategy | None = field(Strategy.ON_DEMAND)
    """LOW_COST allows machines that may be taken away."""


class EncryptionConfig(Written):
    """Keys of the customer's own."""

    kms_key_name: Text | None = field(rule="V16")
    """``projects/P/locations/REGION/keyRings/R/cryptoKeys/K``."""


class TrainingInputSpec(Written):
    """The training: its program, its machines and its limits."""

    scale_tier: ScaleTier | None = field(ScaleTier.BASIC, flag=CommandFlag("TIER", FlagGroup.MACHINES))
    """Ready-made machines, or CUSTOM; BASIC when absent."""
    master_type: Text | None = field(flag=CommandFlag("TYPE", FlagGroup.MACHINES, name="master-machine-type"))
    """Machine type of the master; CUSTOM only."""
    worker_type: Text | None = field(flag=CommandFlag("TYPE", FlagGroup.MACHINES, name="worker-machine-type"))
    """Machine type of the workers; CUSTOM only."""
    parameter_server_type: Text | None = field(
        flag=CommandFlag("TYPE", FlagGroup.MACHINES, name="parameter-server-machine-type")
    )
    """Machine type of the parameter servers; CUSTOM only."""
    evaluator_type: Text | None = field(flag=CommandFlag("TYPE", FlagGroup.MACHINES, name="evaluator-machine-type"))
    """Machine type of the evaluators; CUSTOM only."""
    worker_count: Int64 | None = field(0, flag=CommandFlag("N", FlagGroup.MACHINES))
    """Number of workers; CUSTOM only."""
    parameter_server_count: Int64 | None = field(0, flag=CommandFlag("N", FlagGroup.MACHINES))
    """Number of parameter servers; CUSTOM only."""
    evaluator_count: Int64 | None = field(0, flag=CommandFlag("N", FlagGroup.MACHINES))
    """Number of evaluators; CUSTOM only."""
    master_config: ReplicaConfig | None = None
    """Options of the master."""
    worker_config: ReplicaConfig | None = None
    """Options of the workers."""
    parameter_server_config: ReplicaConfig | None = None
    """Options of the parameter servers."""
    evaluator_config: ReplicaConfig | None = None
    """Options of the evaluators."""
    package_uris: list[Text] | None = field(rule="V10")
    """``gs://`` paths of Python packages, installed in this order."""
    python_module: Text | None = field(rule="V10", flag=CommandFlag("MODULE", FlagGroup.CODE, name="module-name"))
    """Module that is run once the packages are installed."""
    args: list[Text] | None = field([])
    """Arguments of the module or of the image's ENTRYPOINT."""
    hyperparameters: HyperparameterSpec | None = field(rule="V21")
    """A tuning study over the job."""
    region: Text | None = field(rule="V22", flag=CommandFlag("REGION", FlagGroup.PLACES))
    """Region that the job runs in."""
    job_dir: Text | None = field(rule="V19", flag=CommandFlag("gs://...", FlagGroup.PLACES))
    """``gs://`` path for the job's output, passed as ``--job-dir``."""
    runtime_version: Text | None = field(rule="V08", flag=CommandFlag("VERSION", FlagGroup.CODE))
    """Version of the runtime image, such as ``"2.11"``; excludes masterConfig.imageUri."""
    python_version: Text | None = field(rule="V09", flag=CommandFlag("VERSION", FlagGroup.CODE))
    """Python of the runtime image, such as ``"3.7"``."""
    encryption_config: EncryptionConfig | None = None
    """Keys of the customer's own."""
    scheduling: Scheduling | None = None
    """Start, length and priority of the job."""
    network: Text | None = field(rule="V15", flag=CommandFlag("NETWORK", FlagGroup.OPTIONS))
    """``projects/NUMBER/global/networks/NAME`` that the machines are peered with."""
    service_account: Text | None = field(rule="V20", flag=CommandFlag("E-MAIL", FlagGroup.OPTIONS))
    """E-mail of the account that the replicas run as; one is made for the job when absent."""
    use_chief_in_tf_config: Flag | None = field(False, flag=CommandFlag("true|false", FlagGroup.OPTIONS))
    """Call the master ``chief`` in TF_CONFIG; custom containers only."""
    enable_web_access: Flag | None = field(
        False,
        flag=CommandFlag("", FlagGroup.OPTIONS, switch=True),
    )
    """Without effect: encamp opens no shells in replicas."""
    nas_job_spec: dict[str, Any] | None = field(refused=True)
    """Neural architecture search; known, but not supported."""
