"""From an environment's spec to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.job import environment_labels
from encamp.plan.model import EnvironmentPlan

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec


def plan_environment(spec: EnvironmentSpec) -> EnvironmentPlan:
    """Decide everything about an environment."""
    return EnvironmentPlan(
        name=spec.name,
        project=spec.project,
        region=spec.region,
        zones=tuple(spec.zones),
        network=spec.network,
        subnetwork=spec.subnetwork,
        subnetwork_cidr=spec.subnetwork_cidr,
        pods_cidr=spec.pods_cidr,
        services_cidr=spec.services_cidr,
        cluster=spec.cluster,
        artifacts_bucket=spec.artifacts_bucket,
        artifacts_retention_days=spec.artifacts_retention_days,
        registry=spec.registry,
        namespace=spec.namespace,
        labels=environment_labels(spec),
    )
