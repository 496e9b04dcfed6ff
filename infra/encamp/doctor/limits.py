"""Checks of limits that jobs use up in a project: service accounts, node pools, members of policies, quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from encamp.cloud.projects import Projects
from encamp.cloud.resources import Container, ProjectPolicy, ServiceAccounts
from encamp.cloud.rest import RestError
from encamp.cloud.storage import Storage
from encamp.findings import Finding, Grade
from encamp.plan.access.identity import PROJECT_ROLES, default_mode
from encamp.plan.environment.queue_limits import address_problems, queue_limits
from encamp.plan.names import service_account_email
from encamp.spec.encamp import IdentityMode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from encamp.cloud.projects import Quota
    from encamp.cloud.rest import GoogleClient
    from encamp.doctor.stack import Stack
    from encamp.plan.machines.quotas import QuotaNeed

#: Service accounts of a project that did not ask for more. Belief: ``iam-service-accounts-per-project``.
USUAL_ACCOUNTS = 100
#: Members of an allow policy. Belief: ``iam-policy-members``.
MOST_MEMBERS = 1500
#: Node pools beyond which GKE's autoscaler slows. Belief: ``gke-autoscaler-slows-by-pools``.
MOST_POOLS = 200
#: Share of a limit from which somebody should know.
_NEAR = 0.8
_QUOTAS_PAGE = "ask for more on the console's page of quotas"


Look = Callable[[], Iterator[Finding]]


def looks(stack: Stack, client: GoogleClient) -> list[tuple[str, Look]]:
    """Return everything of this room that is looked at, by subject.

    What the caller may not see is no fault of the project.
    """
    projects = Projects(client)
    found: dict[str, Look] = {
        "queues": lambda: queues(stack, projects),
        "service accounts": lambda: service_accounts(stack, ServiceAccounts(client), projects),
        "node pools": lambda: node_pools(stack, Container(client)),
        "IAM policy": lambda: policies(stack, ProjectPolicy(client), Storage(client)),
    }
    return [(subject, partial(_as_far_as_seen, subject, look)) for subject, look in found.items()]


def _as_far_as_seen(subject: str, look: Look) -> Iterator[Finding]:
    try:
        yield from look()
    except RestError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        yield Finding(subject, Grade.NOTE, f"cannot be told: {error.what}", "ask for the right to look at it")


def service_accounts(stack: Stack, accounts: ServiceAccounts, projects: Projects) -> Iterator[Finding]:
    """Examine accounts of the project against its quota, with those that the stack would add."""
    project = stack.spec.project
    there = {str(account["email"]) for account in accounts.accounts(project)}
    quota = projects.account_quota(project)
    most = USUAL_ACCOUNTS if quota is None else int(quota.limit)
    new = _planned_accounts(stack) - there
    text = f"{len(there)} of {most}{'' if quota else ', the usual limit,'} are there"
    text += f", and the stack makes {len(new)}" if new else ""
    each = stack.job is None and default_mode(stack.spec) is IdentityMode.SERVICE_ACCOUNT
    text += "; every job takes one from its `up` to its end" if each else ""
    advice = f"use identity.mode DIRECT, delete accounts that nobody uses, or {_QUOTAS_PAGE} (IAM API)"
    yield _graded("service accounts", text, len(there) + len(new), most, advice, fails=True)


def _planned_accounts(stack: Stack) -> set[str]:
    """Return e-mails of the accounts that a stack makes."""
    project, plan = stack.spec.project, stack.environment
    if stack.job is not None:
        identity = stack.job.identity
        return {identity.service_account} if identity.account_id and identity.service_account else set()
    ids = [plan.gke.nodes.account_id if plan.gke.nodes is not None else None]
    ids += [part.name for part in (plan.reaper, plan.driver, plan.api) if part is not None]
    return {service_account_email(one, project) for one in ids if one is not None}


def node_pools(stack: Stack, container: Container) -> Iterator[Finding]:
    """Examine node pools of the cluster, with those that the stack would add."""
    plan = stack.environment
    there = {str(pool["name"]) for pool in container.node_pools(plan.gke.full_name)}
    if stack.job is not None:
        new = {pool.name for pool in stack.job.own_pools} - there
    else:
        system = {plan.gke.system_pool.name} if plan.gke.system_pool is not None else set[str]()
        new = ({pool.name for pool in plan.shared_pools} | system) - there
    text = f"{len(there)} of {MOST_POOLS} that GKE's autoscaler handles well are there"
    text += f", and the stack makes {len(new)}" if new else ""
    advice = "let jobs of queues share pools (queues.pools), or spread jobs over environments"
    yield _graded("node pools", text, len(there) + len(new), MOST_POOLS, advice, fails=False)


def policies(stack: Stack, policy: ProjectPolicy, storage: Storage) -> Iterator[Finding]:
    """Examine members of the policies in which every job has bindings."""
    named = {
        "the project": (lambda: policy.read(stack.spec.project), len(PROJECT_ROLES)),
        f"gs://{stack.environment.artifacts_bucket}": (
            lambda: storage.policy(stack.environment.artifacts_bucket),
            1,
        ),
    }
    for where, (read, of_job) in named.items():
        try:
            members = members_of(read())
        except RestError as error:
            advice = "ask for the right to read it"
            yield Finding("IAM policy", Grade.NOTE, f"the policy of {where} cannot be read: {error.what}", advice)
            continue
        room = max(MOST_MEMBERS - members, 0) // of_job
        text = f"{members} of {MOST_MEMBERS} members in the policy of {where}; room for {room} more jobs at once"
        advice = "run `encamp reap`, take away members that are gone, or use an environment in another project"
        yield _graded("IAM policy", text, members + of_job, MOST_MEMBERS, advice, fails=True)


def members_of(policy: Mapping[str, Any]) -> int:
    """Return the number of a policy's members as IAM counts them: each as often as it appears."""
    return sum(len(binding.get("members") or ()) for binding in policy.get("bindings") or ())


def queues(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Check the largest demand of the environment's queues against its region; a queue's quota alone admits a job."""
    if stack.job is not None or stack.spec.queues is None:
        return
    limits = queue_limits(stack.spec)
    regional = projects.regional_quotas(stack.spec.project, stack.spec.region)
    short = [found for need in limits.needs if (found := _short(need, regional, projects, stack)) is not None]
    yield from short
    for kind in limits.unlimited:
        text = (
            f"no quota of a queue limits machines {kind}: only the project's quotas do, and then jobs wait for machines"
        )
        yield Finding("queues", Grade.NOTE, text, "give the quota a cpu or memoryGib in queues.teams")
    problems = address_problems(stack.spec, limits.nodes, _pods_per_node(stack))
    for problem in problems:
        yield Finding("queues", Grade.NOTE, problem, "choose a wider range, or lower quotas in queues.teams")
    if not short and not limits.unlimited and not problems:
        text = f"{limits.nodes} machines at most, within {len(limits.needs)} quotas of {stack.spec.region}"
        yield Finding("queues", Grade.OK, text)


def _pods_per_node(stack: Stack) -> int:
    return max((pool.max_pods_per_node for pool in stack.environment.shared_pools), default=32)


def _short(need: QuotaNeed, regional: Mapping[str, Quota], projects: Projects, stack: Stack) -> Finding | None:
    if need.dimension is not None and need.family is not None:
        project = stack.spec.project
        found = projects.family_quota(project, need.metric, need.region, need.dimension, need.family)
    else:
        found = regional.get(need.metric)
    asked = f"the queues could ask for {need.amount} of {need.name} in {need.region}"
    advice = f"lower quotas in queues.teams, or {_QUOTAS_PAGE}: jobs beyond it are let in and wait for machines"
    if found is None:
        return Finding("queues", Grade.NOTE, f"{asked}, and the project's list does not have it", advice)
    if need.amount <= found.limit:
        return None
    return Finding("queues", Grade.NOTE, f"{asked}, its limit is {found.limit:g}", advice)


def _graded(subject: str, text: str, used: int, most: int, advice: str, *, fails: bool) -> Finding:
    """Return a finding by how much of a limit is used.

    Near it somebody should know, beyond it something fails or slows.
    """
    if used > most:
        return Finding(subject, Grade.BAD if fails else Grade.NOTE, text, advice)
    if used >= _NEAR * most:
        return Finding(subject, Grade.NOTE, text, advice)
    return Finding(subject, Grade.OK, text)
