"""The GKE cluster of an environment: from the ``gke`` block to GKE's settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from encamp.plan.environment.model import (
    AutoProvisioningPlan,
    ExclusionPlan,
    GkePlan,
    MaintenancePlan,
    NodeAccountPlan,
    SystemPoolPlan,
)
from encamp.plan.machines.system_pods import NodeFeature
from encamp.plan.names import SYSTEM_POOL, environment_name, service_account_email
from encamp.spec.environment.gke import GkeSpec, SystemPoolSpec

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.gke import MaintenanceSpec

#: Roles of a node on the project: cloud.google.com/kubernetes-engine/docs/how-to/service-accounts.
NODE_ROLES = ("roles/container.defaultNodeServiceAccount",)
#: In the order that GKE was seen to answer in, here and below: providers before 8 compare lists, not sets
#: (github.com/hashicorp/terraform-provider-google/issues/28688, GoogleCloudPlatform/cluster-toolkit/issues/6331).
LOGS = ("SYSTEM_COMPONENTS", "WORKLOADS")
CONTROL_PLANE = ("APISERVER", "SCHEDULER", "CONTROLLER_MANAGER")
#: JobSets, GPUs and the pods of jobs, beside what GKE itself is made of.
METRICS = ("SYSTEM_COMPONENTS", "POD", "DCGM", "JOBSET")
#: Features that bring GKE's pods onto every node of an environment's own cluster. GKE may turn on the DNS cache by
#: itself, so there is room for it.
_FEATURES = frozenset(
    {
        NodeFeature.DATAPLANE_V2,
        NodeFeature.MANAGED_PROMETHEUS,
        NodeFeature.WORKLOAD_IDENTITY,
        NodeFeature.PERSISTENT_DISKS,
        NodeFeature.GCS_FUSE,
        NodeFeature.DNS_CACHE,
    }
)
#: Any day before the first cluster: only the time of the day and the length of the window count.
_FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def plan_gke(spec: EnvironmentSpec) -> GkePlan:
    """Decide everything about the cluster."""
    gke = spec.gke or GkeSpec()
    networks = gke.authorized_networks
    limits = gke.node_auto_provisioning
    return GkePlan(
        full_name=spec.cluster_path,
        workload_pool=f"{spec.project}.svc.id.goog",
        release_channel=gke.release_channel,
        authorized_networks=None if networks is None else tuple((one.name or one.cidr, one.cidr) for one in networks),
        private_endpoint=gke.private_endpoint,
        dns_endpoint=_dns_endpoint(spec, gke),
        control_plane_cidr=gke.control_plane_cidr,
        maintenance=_maintenance(gke.maintenance),
        image_streaming=gke.image_streaming,
        logs=(*LOGS, *(CONTROL_PLANE if gke.control_plane_logs else ())),
        metrics=METRICS,
        nodes=node_account(spec),
        system_pool=_system_pool(spec, gke),
        auto_provisioning=AutoProvisioningPlan(limits.cpu, limits.memory_gib) if limits else None,
    )


def node_features(spec: EnvironmentSpec) -> frozenset[NodeFeature]:
    """Return features that may bring GKE's pods onto the environment's nodes; of an adopted cluster, all that may."""
    if "cluster" in spec.adopt:
        every = frozenset({NodeFeature.LOGGING, NodeFeature.MONITORING, NodeFeature.DCGM})
        return _FEATURES - {NodeFeature.DATAPLANE_V2} | {NodeFeature.DATAPLANE_V1} | every
    gke = plan_gke(spec)
    found = {
        NodeFeature.LOGGING: bool(gke.logs),
        NodeFeature.MONITORING: bool(gke.metrics),
        NodeFeature.DCGM: "DCGM" in gke.metrics,
    }
    return _FEATURES | {feature for feature, on in found.items() if on}


def _dns_endpoint(spec: EnvironmentSpec, gke: GkeSpec) -> bool | None:
    """Return whether the API server is reached by its DNS name; None if the cluster's own setting decides.

    Beliefs: gke-dns-endpoint-recommended.
    """
    if gke.dns_endpoint is not None:
        return gke.dns_endpoint
    return None if spec.is_sandbox or "cluster" in spec.adopt else True


def node_account(spec: EnvironmentSpec) -> NodeAccountPlan | None:
    """Return the account of every node that encamp brings; None in the sandbox, whose nodes need none."""
    gke = spec.gke or GkeSpec()
    if gke.node_service_account is not None:
        return NodeAccountPlan(gke.node_service_account, None)
    if spec.is_sandbox:
        return None
    account_id = environment_name(spec.project, spec.name, "encamp-nodes")
    email = service_account_email(account_id, spec.project)
    return NodeAccountPlan(email, account_id, NODE_ROLES, tuple(gke.image_repositories))


def _system_pool(spec: EnvironmentSpec, gke: GkeSpec) -> SystemPoolPlan | None:
    """Return the system pool; None for an adopted cluster, and for a sandbox whose config has none."""
    written = gke.system_pool
    if "cluster" in spec.adopt or (spec.is_sandbox and written is None):
        return None
    pool = written or SystemPoolSpec()
    return SystemPoolPlan(SYSTEM_POOL, pool.machine_type, pool.min_nodes, pool.max_nodes)


def _maintenance(maintenance: MaintenanceSpec) -> MaintenancePlan:
    hour, minute = maintenance.start.split(":")
    start = _FIRST_DAY.replace(hour=int(hour), minute=int(minute))
    end = start + timedelta(hours=maintenance.hours)
    return MaintenancePlan(
        start=_written(start),
        end=_written(end),
        recurrence=f"FREQ=WEEKLY;BYDAY={','.join(maintenance.days)}",
        exclusions=tuple(ExclusionPlan(one.name, one.start, one.end, one.scope) for one in maintenance.freezes),
    )


def _written(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
