"""Requirements of jobs on an adopted cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan


#: Why a cluster cannot be adopted: gke.dnsEndpoint says that it has such a name, and jobs need pools of their own.
NO_NAME = "nobody outside reaches it by its DNS name (--enable-dns-access)"
AUTOPILOT = "it is an Autopilot cluster, which takes no node pools of jobs"


@dataclass(frozen=True)
class FoundCluster:
    """A cluster as GKE's API describes it.

    Attributes:
        workload_pool: of its Workload Identity, None without.
        pods_range: name of the secondary range of its pods, None if it is not VPC-native.
        gcs_fuse: whether its GCS FUSE driver is on.
    """

    workload_pool: str | None
    pods_range: str | None
    gcs_fuse: bool


def cluster_problems(found: FoundCluster, plan: EnvironmentPlan) -> list[str]:
    """Return the reasons why an environment cannot adopt a cluster, each with what to change on it; empty if it can."""
    problems = []
    if found.workload_pool != plan.gke.workload_pool:
        problems.append(f"it lacks Workload Identity (--workload-pool={plan.gke.workload_pool})")
    if not found.pods_range:
        problems.append("it is not VPC-native, and no cluster becomes that later")
    if not found.gcs_fuse:
        problems.append("it lacks GCS FUSE (--update-addons=GcsFuseCsiDriver=ENABLED)")
    return problems
