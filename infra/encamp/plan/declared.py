"""The resources that the program of a job's stack will create, derived from the plan alone.

Components name their resources by the functions here; a test holds the list against what they register.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.kinds.google import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    BUCKET,
    BUCKET_MEMBER,
    BUCKET_OBJECT,
    NODE_POOL,
    PROJECT_MEMBER,
    RESOURCE_POLICY,
)
from encamp.kinds.objects import (
    CLAIM_TEMPLATE,
    CONFIG_MAP,
    JOB_SET,
    NETWORK_POLICY,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    SERVICE_ACCOUNT,
)
from encamp.kinds.words import word_of
from encamp.plan.job_queue import asks_for_machines
from encamp.plan.manifests.views import claim_views, config_map_name, request_name
from encamp.plan.names import pool_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.kinds.model import GoogleKind, ObjectKind
    from encamp.plan.model import Grant, JobPlan, NodePoolPlan


def runs_the_job(type_token: str, name: str) -> bool:
    """Whether a job ends with this resource of its stack: its JobSet, or what its trials belong to."""
    return type_token == JOB_SET.token or (type_token, name) == (CONFIG_MAP.token, "study")


@dataclass(frozen=True)
class DeclaredResource:
    """One resource that a job's stack declares.

    Attributes:
        type: the engine's type token.
        name: the logical name.
        cloud: what the cloud calls it: ``gs://`` name, e-mail, name of a pool, ``namespace/name`` in the cluster, or
            for a binding its role and what it is on.
    """

    type: str
    name: str
    cloud: str


def grant_name(plan: JobPlan, grant: Grant) -> str:
    """Return the logical name of the binding of a grant."""
    short = grant.role.rpartition("/")[2]
    if grant.bucket is None:
        return short
    own = {plan.storage.scratch_bucket: "scratch", plan.storage.results_bucket: "results"}
    name = f"{short}-{own.get(grant.bucket, grant.bucket)}"
    return f"{name}-{grant.use}" if grant.use else name


def pool_child_name(plan: JobPlan, pool: NodePoolPlan) -> str:
    """Return the logical name of a node pool, and of its placement policy."""
    return pool_shape(plan.name, pool.name)


def _needs_policy(pool: NodePoolPlan) -> bool:
    """Whether a pool's hosts are placed by a policy of their own."""
    return pool.tpu_topology is not None and pool.multi_host and pool.workload_policy is not None


def declared_resources(plan: JobPlan) -> tuple[DeclaredResource, ...]:
    """Return every resource of a job's stack but components and providers, which exist in the engine's state only."""
    return (*_storage(plan), *_access(plan), *_pools(plan), *_workload(plan))


def held_while_waiting(plan: JobPlan) -> str:
    """Return what a job holds at Google while it waits in its queue, in words; resources with quotas come first."""
    resources = declared_resources(plan)
    words = [word_of(one.type) for one in resources]
    dear = [kind.word for kind in (ACCOUNT, NODE_POOL, BUCKET)]
    held = [_counted(words.count(word), word) for word in dear if word in words]
    none = [word for word in dear if word not in words]
    bindings = words.count(PROJECT_MEMBER.word)
    inside = sum(one.type.startswith("kubernetes:") for one in resources)
    rest = f"{_counted(bindings, 'binding')} and {_counted(inside, 'object')} in the cluster"
    return ", ".join([*held, rest, *(f"no {name}" for name in none)])


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def _declared(kind: GoogleKind | ObjectKind, name: str, cloud: str) -> DeclaredResource:
    return DeclaredResource(kind.token, name, cloud)


def _storage(plan: JobPlan) -> Iterator[DeclaredResource]:
    placed = plan.storage
    if placed.scratch_bucket is not None:
        yield _declared(BUCKET, "scratch", f"gs://{placed.scratch_bucket}")
    if placed.results_bucket is not None:
        yield _declared(BUCKET, "results", f"gs://{placed.results_bucket}")
    for index, package in enumerate(placed.packages):
        yield _declared(BUCKET_OBJECT, f"package-{index}", package.uri)
    if placed.folder is not None:
        yield _declared(BUCKET_OBJECT, "job-dir", "gs://{}/{}".format(*placed.folder))


def _access(plan: JobPlan) -> Iterator[DeclaredResource]:
    email = plan.identity.service_account
    if email is not None and plan.identity.account_id is not None:
        yield _declared(ACCOUNT, "account", email)
    for grant in plan.identity.grants:
        kind, on = (PROJECT_MEMBER, plan.project) if grant.bucket is None else (BUCKET_MEMBER, f"gs://{grant.bucket}")
        yield _declared(kind, grant_name(plan, grant), f"{grant.role} on {on}")
    if email is not None:
        yield _declared(ACCOUNT_MEMBER, "workload-identity", f"roles/iam.workloadIdentityUser on {email}")


def _pools(plan: JobPlan) -> Iterator[DeclaredResource]:
    for pool in plan.own_pools:
        if _needs_policy(pool):
            yield _declared(RESOURCE_POLICY, pool_child_name(plan, pool), pool.name)
        yield _declared(NODE_POOL, pool_child_name(plan, pool), pool.name)


def _workload(plan: JobPlan) -> Iterator[DeclaredResource]:
    inside = f"{plan.namespace}/"
    account = plan.identity.kubernetes_service_account
    yield _declared(SERVICE_ACCOUNT, "account", f"{inside}{account}")
    yield _declared(CONFIG_MAP, "scripts", f"{inside}{config_map_name(plan)}")
    yield _declared(NETWORK_POLICY, "replicas", f"{inside}{plan.name}")
    for claim in claim_views(plan):
        yield _declared(CLAIM_TEMPLATE, claim.name, f"{inside}{claim.name}")
    queued = {pool.name for pool in plan.node_pools if asks_for_machines(plan, pool)}
    for group in plan.groups:
        if group.node_pool in queued:
            name = request_name(plan, group)
            yield _declared(POD_TEMPLATE, f"{name}-pods", f"{inside}{name}")
            yield _declared(PROVISIONING_REQUEST, name, f"{inside}{name}")
    if plan.study is not None:
        yield _declared(CONFIG_MAP, "study", f"{inside}{plan.name}")
    else:
        yield _declared(JOB_SET, "job-set", f"{inside}{plan.name}")
