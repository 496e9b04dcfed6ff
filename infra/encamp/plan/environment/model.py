"""The parts of an environment's plan: plain frozen data, each for one component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.access.model import ConditionPlan


@dataclass(frozen=True)
class VpcPlan:
    """The network's addresses outside of names and ranges.

    Attributes:
        network: full name, ``projects/P/global/networks/N``.
        subnetwork: full name, ``projects/P/regions/R/subnetworks/S``.
        nat_ports: ports of a machine at least, and at most.
    """

    network: str
    subnetwork: str
    pods_range: str
    services_range: str
    mtu: int
    router: str
    nat: str
    nat_ports: tuple[int, int]
    flow_logs: bool


@dataclass(frozen=True)
class NodeAccountPlan:
    """The account of the nodes.

    Attributes:
        account_id: of the account that is made; None if it exists.
        project_roles: its roles on the project.
        repositories: full names of those it may pull from, beside the environment's own registry.
    """

    email: str
    account_id: str | None
    project_roles: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExclusionPlan:
    """A time without upgrades, in RFC 3339."""

    name: str
    start: str
    end: str
    scope: str


@dataclass(frozen=True)
class MaintenancePlan:
    """GKE's maintenance window: its first start in RFC 3339, and its recurrence in RFC 5545."""

    start: str
    end: str
    recurrence: str
    exclusions: tuple[ExclusionPlan, ...]


#: Boot disk that GKE chooses for the pool: cloud.google.com/kubernetes-engine/docs/how-to/custom-boot-disks.
SYSTEM_DISK, SYSTEM_DISK_GB = "pd-balanced", 100


@dataclass(frozen=True)
class SystemPoolPlan:
    """The node pool of permanent workloads; counts are over all zones."""

    name: str
    machine_type: str
    min_nodes: int
    max_nodes: int


@dataclass(frozen=True)
class AutoProvisioningPlan:
    """Limits of node auto-provisioning, for the whole cluster."""

    cpu: int
    memory_gib: int


@dataclass(frozen=True)
class GkePlan:
    """The cluster.

    Attributes:
        full_name: ``projects/P/locations/R/clusters/C``.
        authorized_networks: name and range of who may reach the API server; None for every address.
        dns_endpoint: whether it is reached by its DNS name; None if the cluster says so: it is asked
            for no name, and reached by the one that it has, if any.
        logs: components whose logs are kept.
        metrics: components whose metrics are kept.
    """

    full_name: str
    workload_pool: str
    release_channel: str
    authorized_networks: tuple[tuple[str, str], ...] | None
    private_endpoint: bool
    dns_endpoint: bool | None
    control_plane_cidr: str | None
    maintenance: MaintenancePlan
    image_streaming: bool
    logs: tuple[str, ...]
    metrics: tuple[str, ...]
    nodes: NodeAccountPlan | None
    system_pool: SystemPoolPlan | None
    auto_provisioning: AutoProvisioningPlan | None


@dataclass(frozen=True)
class LifecyclePlan:
    """One rule of a bucket.

    Attributes:
        action: ``Delete``, ``SetStorageClass`` or ``AbortIncompleteMultipartUpload``.
        age_days: of the object, or of the upload.
        old_days: since it was overwritten or deleted; only old versions have that.
        newer: how many newer versions of the object there are at least, the newest one among them.
        suffixes: how names of objects end; all objects when empty.
        live: only what was neither overwritten nor deleted. Age alone would take old versions at once.
    """

    action: str
    age_days: int | None = None
    old_days: int | None = None
    storage_class: str | None = None
    live: bool = False
    newer: int | None = None
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BucketPlan:
    """A bucket that lives long.

    Attributes:
        soft_delete_days: how long what is deleted can be restored, None for Google's own default of a week.
    """

    name: str
    versioning: bool
    lifecycle: tuple[LifecyclePlan, ...]
    soft_delete_days: int | None = None


@dataclass(frozen=True)
class LogExclusionPlan:
    """Entries that the project's own bucket of logs does not take in, and so does not cost."""

    name: str
    description: str
    filter: str


@dataclass(frozen=True)
class AgentPlan:
    """A service agent of Google's that uses the key.

    Attributes:
        name: short, for logical names.
        email: with ``{number}`` for the project's number; None for Cloud Storage's, which says it itself when asked,
            and comes to be by that.
        identity: the service whose agent has to be made; None where enabling the service makes it.
    """

    name: str
    email: str | None
    identity: str | None = None


@dataclass(frozen=True)
class KeyPlan:
    """The key that encrypts stored data.

    Attributes:
        full_name: ``projects/P/locations/L/keyRings/R/cryptoKeys/K``.
        ring: short name of the key ring that is made; None if the key exists.
        rotation: period of new versions, such as ``7776000s``.
        agents: the service agents that may use it.
    """

    full_name: str
    ring: str | None
    rotation: str
    agents: tuple[AgentPlan, ...]


@dataclass(frozen=True)
class BudgetPlan:
    """A budget alert.

    Attributes:
        units: of the currency, a month.
        labels: what counts; everything of the project when empty.
        thresholds: share of the amount, and ``CURRENT_SPEND`` or ``FORECASTED_SPEND``.
    """

    display_name: str
    billing_account: str
    units: int
    currency: str | None
    labels: Mapping[str, str]
    thresholds: tuple[tuple[float, str], ...]
    channels: tuple[str, ...]
    topic: str | None


@dataclass(frozen=True)
class ReaperPlan:
    """A reaper in the environment's cluster, decided.

    Attributes:
        name: of its service account at Google and of everything of it in the cluster, its namespace among that.
        role_id: of the custom role that holds its rights.
        grants_role_id: of the one by which it takes jobs' grants from the project's policy.
        grants: under which condition it has that one.
        record_secret: a Secret whose keys become the pod's variables.
        cluster: full name of the cluster that it runs in, and its jobs.
    """

    name: str
    role_id: str
    grants_role_id: str
    grants: ConditionPlan
    image: str
    schedule: str
    backend_url: str
    record_secret: str
    cluster: str
