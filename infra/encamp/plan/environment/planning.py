"""The planning of an environment: from its spec to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.access.conditions import roles_of_jobs
from encamp.plan.access.planning import plan_access, starters
from encamp.plan.environment import parts
from encamp.plan.environment.api import api_account, plan_api
from encamp.plan.environment.charts import plan_charts
from encamp.plan.environment.driver import plan_driver
from encamp.plan.environment.gke import plan_gke
from encamp.plan.environment.image_cache import plan_image_cache
from encamp.plan.environment.model import ReaperPlan
from encamp.plan.environment.monitoring import plan_monitoring
from encamp.plan.environment.pod_admission import admission_policy
from encamp.plan.environment.queues import plan_queues
from encamp.plan.environment.shared_pools import plan_shared_pools
from encamp.plan.job import environment_labels
from encamp.plan.model import EnvironmentPlan
from encamp.plan.names import environment_name, pod_policy
from encamp.spec.environment.gke import GkeSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.spec.environment import EnvironmentSpec


def plan_environment(spec: EnvironmentSpec) -> EnvironmentPlan:
    """Decide everything about an environment."""
    labels = environment_labels(spec)
    api = api_account(spec)
    speaks_for_others = f"system:serviceaccount:{api[0]}:{api[0]}" if api is not None else None
    driver = plan_driver(spec, labels, starters(spec), speaks_for_others)
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
        registry=spec.registry,
        namespace=spec.namespace,
        labels=labels,
        services=parts.plan_services(spec),
        vpc=parts.plan_vpc(spec),
        gke=plan_gke(spec),
        artifacts=parts.plan_artifacts(spec),
        adopted=frozenset(spec.adopt),
        protect=not spec.is_sandbox if spec.protect is None else spec.protect,
        logs=parts.plan_logs(spec),
        image_cache=plan_image_cache(spec),
        log_exclusion=parts.plan_log_exclusion(spec),
        key=parts.plan_key(spec),
        budget=parts.plan_budget(spec),
        warnings=tuple(_warnings(spec)),
        reaper=_reaper(spec),
        access=plan_access(spec),
        charts=plan_charts(spec, labels),
        queues=plan_queues(spec),
        shared_pools=plan_shared_pools(spec),
        monitoring=plan_monitoring(spec, labels),
        driver=driver,
        api=plan_api(spec, labels, driver.name) if driver is not None else None,
        pod_admission=_pod_admission(spec, labels),
    )


def _pod_admission(spec: EnvironmentSpec, labels: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    if not (spec.gke or GkeSpec()).tpu_locked_memory:
        return ()
    return admission_policy(pod_policy(spec.name), spec.namespace, labels)


def _warnings(spec: EnvironmentSpec) -> Iterator[str]:
    gke = spec.gke or GkeSpec()
    if spec.is_sandbox or "cluster" in spec.adopt:
        return
    if gke.authorized_networks is None and not gke.private_endpoint:
        yield (
            "every address may reach the cluster's API server, and only Google's sign-in stands before it;"
            f" list who may in gke.authorizedNetworks{_nobody(gke)}"
        )


def _nobody(gke: GkeSpec) -> str:
    return "" if gke.dns_endpoint is False else ": an empty list is enough, for encamp uses the DNS endpoint"


def _reaper(spec: EnvironmentSpec) -> ReaperPlan | None:
    if spec.reaper is None:
        return None
    name = environment_name(spec.project, spec.name, "encamp-reaper")
    return ReaperPlan(
        name=name,
        # Ids of custom roles take no hyphens, and one that was deleted is kept from use for weeks.
        role_id=name.replace("-", "_"),
        grants_role_id=f"{name.replace('-', '_')}_grants",
        grants=roles_of_jobs(),
        image=spec.reaper.image,
        schedule=spec.reaper.schedule,
        backend_url=spec.reaper.backend_url,
        record_secret=spec.reaper.record_secret,
        cluster=spec.cluster_path,
    )
