"""From an environment's spec to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.access import plan_access
from encamp.plan.job import environment_labels
from encamp.plan.model import EnvironmentPlan, ReaperPlan
from encamp.plan.monitoring import plan_monitoring
from encamp.plan.names import short_name
from encamp.plan.queues import plan_queues

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
        reaper=_reaper(spec),
        queues=plan_queues(spec),
        access=plan_access(spec),
        monitoring=plan_monitoring(spec, environment_labels(spec)),
    )


def _reaper(spec: EnvironmentSpec) -> ReaperPlan | None:
    if spec.reaper is None:
        return None
    name = short_name(spec.project, spec.name, "encamp-reaper")
    return ReaperPlan(
        name=name,
        # Ids of custom roles take no hyphens, and one that was deleted is kept from use for weeks.
        role_id=name.replace("-", "_"),
        image=spec.reaper.image,
        schedule=spec.reaper.schedule,
        backend_url=spec.reaper.backend_url,
        record_secret=spec.reaper.record_secret,
    )
