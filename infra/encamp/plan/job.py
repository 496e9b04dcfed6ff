"""The planning of a job: from its file and an environment to its plan."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.duration import seconds_of
from encamp.errors import PlanError
from encamp.plan.access.identity import identity, identity_warnings
from encamp.plan.cost.bill import bill_labels, pod_labels
from encamp.plan.cost.by_use import job_use_costs
from encamp.plan.cost.job import cost, cost_warnings, cut_warning, within_budget
from encamp.plan.cost.lasting import lasting
from encamp.plan.cost.prices import price_table
from encamp.plan.egress import plan_egress
from encamp.plan.environment.image_cache import through_cache
from encamp.plan.environment.monitoring import overdue_warnings
from encamp.plan.groups import Placed, allows_locked_memory, image_cases, replica_groups
from encamp.plan.images import python_warning
from encamp.plan.imports import missing_imports
from encamp.plan.job_queue import check_quotas, flavored, job_queue
from encamp.plan.limits import limits, node_run_duration_seconds
from encamp.plan.machines.image_rules import image_warnings
from encamp.plan.machines.pools import node_pools
from encamp.plan.machines.preconditions import consumption_warnings
from encamp.plan.machines.rdma import rdma_warnings
from encamp.plan.machines.sharing import share
from encamp.plan.manifests.containers import (
    Container,
    compact_json,
    container,
    environment_variables,
    tpu_variables,
    training_input_data,
)
from encamp.plan.model import (
    ENVIRONMENT_LABEL,
    JOB_LABEL,
    OWNER_LABEL,
    JobPlan,
)
from encamp.plan.names import kept_name
from encamp.plan.notices import plan_notices
from encamp.plan.packages import distinct_names, idle_package_warnings
from encamp.plan.policy import kept
from encamp.plan.replicas import roles
from encamp.plan.storage import storage, storage_warnings, wanted_storage
from encamp.plan.study import study, study_variables
from encamp.plan.tf_config import cluster
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.cost.lasting import Lasting
    from encamp.plan.cost.model import CostPlan
    from encamp.plan.model import LimitsPlan, LocalPackage, NodePoolPlan
    from encamp.plan.replicas import RoleRequest
    from encamp.plan.summary import JobSummary
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.prices import PriceTableSpec
    from encamp.spec.training import TrainingInputSpec


def plan_job(
    job: TrainingJobSpec,
    environment: EnvironmentSpec,
    *,
    packages: Sequence[LocalPackage] = (),
    name: str | None = None,
    earlier: JobSummary | None = None,
) -> JobPlan:
    """Decide everything about a job.

    Args:
        job: a job that keeps every rule and has an id.
        environment: where it runs.
        packages: its archives on this machine, in the order of installation.
        name: the cloud name that it has already, where it exists.
        earlier: the summary of the job as its stack was brought up before; None for a job that is new. A running job
            must not lose its identity, its machines or its packages because encamp was upgraded or because the
            environment's defaults changed, so what its file leaves open stays as it was decided first.

    Raises:
        PlanError: the job is valid, but cannot run here.
        PolicyError: it breaks rules of the environment.
    """
    job_id = _check(job, environment, packages)
    training_input = job.training_input
    name = kept_name(environment.project, environment.name, job_id, name)
    queue = job_queue(job, environment)
    # Until its queue lets it in a job holds as little as it can, a bucket of its own least of all.
    scratch = queue is None or (earlier is not None and earlier.scratch_bucket is not None)
    placed = storage(job, job_id, name, environment, packages, scratch=scratch)
    requests, warnings = roles(job)
    images = environment.runtime_images or {}
    named = [container(training_input, one, placed.job_dir, images) for one in requests]
    cases, containers = image_cases(job, requests, named), [_pulled(each, environment) for each in named]
    bounds = limits(training_input.scheduling, queue)
    labels = job_labels(environment, name)
    billed, unbilled = bill_labels(job.labels)
    pools, hosts, placing = node_pools(
        name, requests, job, environment=environment, limits=bounds, labels=labels, images=cases
    )
    has = earlier.node_pools if earlier is not None else ()
    shared = share(flavored(pools, queue), environment, zone=job.encamp.zone, kept=has)
    hosts = tuple(shared.names[host] for host in hosts)
    table = price_table(environment)
    pools, bounds, costs, cut = _paid(
        job, shared.pools, bounds, lasts=lasting(containers, training_input.scheduling), table=table
    )
    data = training_input_data(training_input, placed.job_dir)
    uris = (*(training_input.package_uris or ()), *(local.uri for local in placed.packages))
    distinct_names(uris)
    searched = study(job)
    variables = {**environment_variables(job, environment.project, compact_json(data)), **study_variables(searched)}
    by_name = {pool.name: pool for pool in pools}
    chosen = [by_name[host] for host in hosts]
    env = [{**variables, **_tpu_variables(environment, pool)} for pool in chosen]
    placed_roles = [Placed(*each) for each in zip(requests, containers, chosen, env, strict=True)]
    groups = replica_groups(job, environment, placed_roles, uris)
    check_quotas(queue, groups, pools, environment)
    who = identity(name, environment, job, placed, earlier.identity_mode if earlier is not None else None)
    plan = JobPlan(
        job_id=job_id,
        name=name,
        region=training_input.region or environment.region,
        project=environment.project,
        environment=environment.name,
        namespace=environment.namespace,
        groups=groups,
        cluster=cluster(name, groups),
        node_pools=pools,
        identity=who,
        storage=placed,
        limits=bounds,
        labels=labels,
        bill_labels=billed,
        training_input=data,
        runtime_version=training_input.runtime_version,
        python_version=training_input.python_version,
        requirements=tuple(job.encamp.requirements or ()),
        stand_in_region=environment.region if training_input.region != environment.region else None,
        cost=replace(costs, by_use=job_use_costs(environment, placed, table)),
        queue=queue,
        egress=plan_egress(job, environment),
        notices=plan_notices(job, environment),
        study=searched,
        warnings=(
            *warnings,
            *placing,
            *dict.fromkeys(image_warnings(cases, job.encamp.requirements or ())),
            *map(str, missing_imports(job, named, packages)),
            *_locked_memory_warnings(environment, requests),
            *rdma_warnings(groups, pools, environment, table),
            *shared.warnings,
            *(pod_labels(billed)[1] if any(pool.shared_in is not None for pool in pools) else ()),
            *_warnings(job, environment, containers),
            *identity_warnings(who, environment),
            *storage_warnings(job, environment, placed),
            *cut,
            *unbilled,
            *cost_warnings(costs, environment.region),
            *consumption_warnings(pools),
            *overdue_warnings((pool for pool in pools if pool.shared_in is None), environment),
        ),
    )
    return kept(plan, environment, labels=job.labels, fields={one.role: one.where for one in requests})


def _pulled(chosen: Container, environment: EnvironmentSpec) -> Container:
    """Return the container with a stock image pulled through the environment's cache; other images stay."""
    return chosen if chosen.custom else replace(chosen, image=through_cache(chosen.image, environment))


def _paid(
    job: TrainingJobSpec,
    pools: tuple[NodePoolPlan, ...],
    bounds: LimitsPlan,
    *,
    lasts: Lasting,
    table: PriceTableSpec,
) -> tuple[tuple[NodePoolPlan, ...], LimitsPlan, CostPlan, list[str]]:
    """Return pools and limits as the job's budget allows them, what they cost, and what was cut."""
    budget = job.encamp.budget.usd if job.encamp.budget else None
    scheduling = job.training_input.scheduling
    fixed = scheduling is not None and scheduling.max_running_time is not None
    expected = seconds_of(job.encamp.expected_time)
    asked = cost(pools, bounds, lasts=lasts, table=table, budget=budget, expected=expected, bounded=fixed)
    paid = within_budget(asked, bounds, lasts=lasts, fixed=fixed)
    if paid == bounds:
        return pools, bounds, asked, []
    longest = node_run_duration_seconds(paid)
    shorter = tuple(
        replace(pool, max_run_duration_seconds=min(pool.max_run_duration_seconds, longest)) for pool in pools
    )
    costs = cost(shorter, paid, lasts=lasts, table=table, budget=budget, expected=expected)
    return shorter, paid, costs, [cut_warning(asked, paid)]


def job_labels(environment: EnvironmentSpec, name: str) -> Mapping[str, str]:
    """Return labels of everything that belongs to a job."""
    return {**environment_labels(environment), JOB_LABEL: name}


def environment_labels(environment: EnvironmentSpec) -> Mapping[str, str]:
    """Return labels of everything that belongs to an environment."""
    return {OWNER_LABEL: environment.owner, ENVIRONMENT_LABEL: environment.name}


def _check(job: TrainingJobSpec, environment: EnvironmentSpec, packages: Sequence[LocalPackage]) -> str:
    """Return the job's id, if this version can run the job in this environment."""
    if job.job_id is None:
        raise PlanError("the job has no id", where="jobId", hint="name it by --job-id")
    region = job.training_input.region
    if region is not None and region != environment.region and not environment.stands_in:
        raise PlanError(
            f"the job runs in {region}, the environment {environment.name} is in {environment.region}",
            where="trainingInput.region",
            hint="choose an environment of that region by --environment, or change the region",
        )
    block = job.encamp
    if len(packages) != len(block.packages or ()) + (block.package_path is not None):
        raise PlanError("the local packages were not packed", where="encamp.packagePath")
    return job.job_id


def _tpu_variables(environment: EnvironmentSpec, pool: NodePoolPlan) -> Mapping[str, str]:
    return tpu_variables(environment.project, pool.zone if pool.tpu_topology is not None else None)


def _locked_memory_warnings(environment: EnvironmentSpec, requests: Sequence[RoleRequest]) -> list[str]:
    if allows_locked_memory(environment) or all(request.shape.tpu_version is None for request in requests):
        return []
    what = "replicas on TPUs may not raise their limit of locked memory here, as GKE's page of TPUs asks"
    return [f"{what}; gke.tpuLockedMemory of the environment allows it"]


def _untold_job_dir(training_input: TrainingInputSpec) -> list[str]:
    """Return a warning for roles with containerCommand or containerArgs, which get no ``--job-dir``."""
    configs = {role: getattr(training_input, role.config_field) for role in Role}
    told = [role for role, config in configs.items() if config and (config.container_command or config.container_args)]
    if not told:
        return []
    roles = ", ".join(told)
    return [f"--job-dir is not added to containerCommand and containerArgs ({roles}); CLOUD_ML_JOB says the job dir"]


def _warnings(job: TrainingJobSpec, environment: EnvironmentSpec, containers: Sequence[Container]) -> list[str]:
    found: list[str] = []
    training_input = job.training_input
    if training_input.region != environment.region:
        found.append(
            f"the job asks for {training_input.region}; the environment {environment.name} is in {environment.region} "
            "and stands in for it"
        )
    version, python = training_input.runtime_version, training_input.python_version
    runtime = containers[0].runtime
    differing = python_warning(runtime, version, python) if runtime and version and python else None
    if differing is not None:
        found.append(differing)
    if training_input.enable_web_access:
        found.append(
            "enableWebAccess has no effect: encamp opens no shells in replicas; `encamp logs` shows what they say"
        )
    for field, value in (("network", training_input.network), ("encryptionConfig", training_input.encryption_config)):
        if value is not None:
            found.append(f"{field} is checked, but the environment's own is used by this version")
    found.extend(idle_package_warnings(job, containers))
    if training_input.job_dir is not None or wanted_storage(job, environment) is not None:
        found.extend(_untold_job_dir(training_input))
    if any(re.search(r"/cloud-ml-(algos|public)/", chosen.image) for chosen in containers):
        found.append("images of AI Platform itself may be gone; the job fails to start if they are")
    return found
