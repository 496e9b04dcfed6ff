"""What jobs cannot do without in a cluster that somebody else made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import EnvironmentPlan


def cluster_problems(found: Mapping[str, object], plan: EnvironmentPlan) -> list[str]:
    """Why a cluster cannot be adopted, each with what to change on it; empty where it can.

    Args:
        found: ``workload_identity``, its workload pool; ``ranges``, name of its pods' secondary range; ``gcs_fuse``,
            whether the driver is on; ``autopilot``. What it has not is None.
        plan: the environment that adopts it.
    """
    problems = []
    if found.get("autopilot"):
        problems.append("it is an Autopilot cluster, which takes no node pools of jobs")
    if found.get("workload_identity") != plan.gke.workload_pool:
        problems.append(f"it lacks Workload Identity (--workload-pool={plan.gke.workload_pool})")
    if not found.get("ranges"):
        problems.append("it is not VPC-native, which Google makes of no cluster later: replicas need routed addresses")
    if not found.get("gcs_fuse"):
        problems.append("it lacks GCS FUSE (--update-addons=GcsFuseCsiDriver=ENABLED)")
    return problems
