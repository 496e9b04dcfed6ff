"""An environment as written: the long-lived resources around jobs. Every block is a model in a file of its own."""

from __future__ import annotations

from typing import Literal

from encamp.spec.encamp import IdentitySpec
from encamp.spec.environment.access import AccessSpec
from encamp.spec.environment.api import ApiSpec
from encamp.spec.environment.budget import BudgetSpec
from encamp.spec.environment.driver import DriverSpec
from encamp.spec.environment.encryption import EncryptionSpec
from encamp.spec.environment.gke import GkeSpec
from encamp.spec.environment.monitoring import MonitoringSpec
from encamp.spec.environment.notices import NoticesSpec
from encamp.spec.environment.policy import PolicySpec
from encamp.spec.environment.prices import PricesSpec
from encamp.spec.environment.queues import QueuesSpec
from encamp.spec.environment.reaper import ReaperSpec
from encamp.spec.environment.storage import StorageSpec
from encamp.spec.environment.vpc import VpcSpec
from encamp.spec.fields import Flag, Int64, Text, Written

#: Projects of the sandbox have ids that begin so; no project of Google Cloud's is ever called like this by us.
SANDBOX_PREFIX = "sandbox-"

#: Resources that can exist before their environment; written in ``adopt``.
Adoptable = Literal["network", "cluster", "artifactsBucket", "registry"]


class EnvironmentSpec(Written):
    """An environment: network, cluster, registry and the bucket that outlives jobs."""

    name: Text = ""
    """Name of the environment, on its cluster's labels."""
    project: Text = ""
    """Project id; the stack's ``gcp:project``."""
    region: Text = ""
    """Region of cluster, buckets and registry."""
    zones: tuple[Text, ...] = ()
    """Zones for nodes; the region's own choice when empty."""
    artifacts_bucket: Text = ""
    """Bucket of results, logs and receipts."""
    artifacts_retention_days: Int64 | None = None
    """Results are deleted after this many days; kept when absent."""
    owner: Text = "encamp"
    """Owner label on everything: who pays, and whose reaper may delete it."""
    cluster: Text = "encamp"
    """Name of the GKE cluster."""
    namespace: Text = "encamp-jobs"
    """Kubernetes namespace of the jobs."""
    network: Text = "encamp"
    """Name of the VPC network."""
    subnetwork: Text = "encamp"
    """Name of the subnetwork."""
    subnetwork_cidr: Text = "10.10.0.0/20"
    """Addresses of the nodes."""
    pods_cidr: Text = "10.20.0.0/14"
    """Addresses of the pods."""
    services_cidr: Text = "10.30.0.0/20"
    """Addresses of the services."""
    registry: Text = "encamp"
    """Name of the Artifact Registry repository."""
    job_egress: tuple[Text, ...] = ()
    """Private networks that job files may let their replicas connect to, such as ``10.4.0.0/16``; none when empty."""
    docker_hub_cache: Flag | None = None
    """Images of Docker Hub that stand for runtime versions come through a repository of the environment's own,
    ``REGISTRY-docker-hub``, which fetches each once: Docker Hub counts pulls by address, and machines share one. On
    when absent where the environment makes its nodes' account; in the sandbox off."""
    adopt: tuple[Adoptable, ...] = ()
    """Resources that exist already and are used under their names, neither changed nor deleted with the environment:
    ``network`` (with its subnetwork and NAT), ``cluster``, ``artifactsBucket``, ``registry``."""
    protect: Flag | None = None
    """The engine and GKE refuse to delete cluster, buckets, registry and key. On when absent, in the sandbox off."""
    vpc: VpcSpec | None = None
    """More of the network."""
    gke: GkeSpec | None = None
    """More of the cluster."""
    storage: StorageSpec | None = None
    """More of the buckets."""
    encryption: EncryptionSpec | None = None
    """A customer-managed key for stored data; Google's keys when absent."""
    budget: BudgetSpec | None = None
    """An alert on the environment's monthly cost; none when absent."""
    runtime_images: dict[Text, Text] | None = None
    """Container images by runtime version, such as ``"2.11"``, for machines with TPUs also ``"2.11-tpu"``; they win
    over the built-in table."""
    controllers: Literal["install", "given"] | None = None
    """Whether JobSet, and Kueue where there are queues, are installed by the environment, or its cluster has them
    already. The sandbox's has them; elsewhere they are installed when absent."""
    queues: QueuesSpec | None = None
    """Queues and quotas of teams; jobs get their machines at once when absent."""
    reaper: ReaperSpec | None = None
    """A reaper in the environment's own cluster; none when absent."""
    driver: DriverSpec | None = None
    """Drivers of jobs in the environment's own cluster; none when absent."""
    api: ApiSpec | None = None
    """The jobs API for gcloud and other clients of AI Platform in the environment's own cluster; none when absent."""
    identity: IdentitySpec | None = None
    """IAM identity of replicas whose job file names none."""
    access: AccessSpec | None = None
    """Teams with AI Platform's roles, and audit logs; access is left to the project's own IAM when absent."""
    monitoring: MonitoringSpec | None = None
    """A dashboard of the jobs and alerts; none when absent."""
    notices: NoticesSpec | None = None
    """Messages about jobs that ended; none when absent."""
    prices: PricesSpec | None = None
    """Prices for costs and budgets; list prices of us-central1 when absent."""
    policy: PolicySpec | None = None
    """Limits for jobs of this environment; none when absent."""
    other_regions: Literal["refuse", "stand-in"] | None = None
    """How a job of another region is treated: refused, or run here with a warning. The sandbox stands in for every
    region unless it is told to refuse; elsewhere jobs are refused."""

    @property
    def is_sandbox(self) -> bool:
        """Whether this is an environment of this machine's own cloud."""
        return self.project.startswith(SANDBOX_PREFIX)

    @property
    def cluster_path(self) -> str:
        """Full name of the cluster: ``projects/P/locations/L/clusters/C``."""
        return f"projects/{self.project}/locations/{self.region}/clusters/{self.cluster}"

    @property
    def installs_controllers(self) -> bool:
        """Whether the environment installs JobSet and Kueue itself."""
        return not self.is_sandbox if self.controllers is None else self.controllers == "install"

    @property
    def stands_in(self) -> bool:
        """Whether a job of another region is run here."""
        choice = self.other_regions or ("stand-in" if self.is_sandbox else "refuse")
        return choice == "stand-in"
