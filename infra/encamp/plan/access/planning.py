"""Planning of access: AI Platform's roles as custom roles, each right on the resource that it is for.

Google's IAM does not know whose a job is. What a person who starts jobs needs to make and take down their resources is
therefore narrowed by conditions instead: to buckets with a job's name, to the roles that jobs get. All of it stays
within IAM's own limits (``iam_limits.py``).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.kinds.rights import ClusterRule
from encamp.plan.access.conditions import UNCONDITIONAL, conditions_of, grantable_roles
from encamp.plan.access.iam_limits import PolicyBinding, policy_problems
from encamp.plan.access.identity import default_mode
from encamp.plan.access.model import (
    AccessPlan,
    AuditPlan,
    AuditSinkPlan,
    ClusterRolePlan,
    CustomRolePlan,
    MemberRolePlan,
    SubjectPlan,
)
from encamp.plan.environment.api import api_account
from encamp.plan.environment.driver import ROLE as DRIVER_ROLE
from encamp.plan.environment.driver import driver_account
from encamp.plan.environment.gke import node_account
from encamp.plan.names import custom_role_id, environment_name
from encamp.spec.encamp import IdentityMode
from encamp.spec.environment.access import AccessSpec
from encamp.spec.ml_roles import Reach, ml_roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from encamp.spec.environment import AuditSpec, EnvironmentSpec

#: Services whose Data Access logs are kept: those that a job, or somebody who looks at it, calls.
AUDITED = (
    "artifactregistry.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
)
_LOOKS, _DATA = ("ADMIN_READ",), ("DATA_READ", "DATA_WRITE")
_AUDIT_RETENTION_DAYS = 400
#: Resources on which custom roles are granted, by the policy that holds the binding.
_POLICIES = {
    "project": (*UNCONDITIONAL, Reach.JOB_BUCKETS, Reach.JOB_GRANTS, Reach.ROLE_GRANTS),
    "artifacts bucket": (Reach.ARTIFACTS, Reach.ARTIFACTS_GRANTS, Reach.MODELS),
    "account of the machines": (Reach.NODES,),
}
_AUDIT_LOGS = ("activity", "data_access", "policy", "system_event")


def plan_access(spec: EnvironmentSpec) -> AccessPlan | None:
    """Return access as the environment's block says it, and of drivers and a jobs API in its cluster.

    None without any.
    """
    # The jobs API looks at jobs before drivers do, and finds what they will only by the same rights.
    own = [f"serviceAccount:{account[1]}" for account in (driver_account(spec), api_account(spec)) if account]
    if spec.access is None and not own:
        return None
    access = spec.access or AccessSpec()
    nodes = node_account(spec)
    holders = _holders(access, {DRIVER_ROLE: own})
    left_out = {Reach.ACCOUNTS: not may_make_accounts(spec), Reach.NODES: nodes is None}
    reaches = [reach for reach in Reach if not left_out.get(reach)]
    roles = {
        (role, reach): made
        for role in holders
        for reach in reaches
        if (made := _custom_role(spec, role, reach)) is not None
    }
    conditions = conditions_of(spec, grantable_roles(spec, roles))
    plan = AccessPlan(
        node_account=nodes.email if nodes is not None else None,
        roles=tuple(roles.values()),
        members=tuple(
            MemberRolePlan(made.key, member, reach, conditions.get(reach))
            for (role, reach), made in roles.items()
            for member in holders[role]
        ),
        cluster_roles=tuple(
            ClusterRolePlan(
                f"encamp-{role.replace('.', '-').lower()}", rules, (*map(_subject, members), *_pods(spec, role))
            )
            for role, members in holders.items()
            if (rules := merged(rule for ability in ml_roles().abilities_of(role) for rule in ability.cluster))
        ),
        security_group=access.security_group,
        cloud_tpu=access.cloud_tpu,
        audit=_audit(spec, access.audit) if access.audit is not None else None,
    )
    _require_within_limits(plan)
    return plan


def may_make_accounts(spec: EnvironmentSpec) -> bool:
    """Whether teams and drivers may make and delete the service accounts of jobs.

    Unless the environment says it, they may if its jobs usually have one: the right reaches every account of the
    project.
    """
    said = spec.access.own_accounts if spec.access is not None else None
    return default_mode(spec) is IdentityMode.SERVICE_ACCOUNT if said is None else said


def merged(rules: Iterable[ClusterRule]) -> tuple[ClusterRule, ...]:
    """Return the same rules, as few as they can be: resources of a group that allow the same verbs in one."""
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for rule in rules:
        for resource in rule.resources:
            verbs[rule.group, resource] |= set(rule.verbs)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), allowed in verbs.items():
        resources[group, tuple(sorted(allowed))].append(resource)
    return tuple(
        sorted(ClusterRule(group, tuple(sorted(each)), allowed) for (group, allowed), each in resources.items())
    )


def starters(spec: EnvironmentSpec) -> tuple[SubjectPlan, ...]:
    """Return the members that may start jobs through any team, as Kubernetes subjects."""
    held = _holders(spec.access, {}) if spec.access is not None else {}
    members = {member for role in ml_roles().holding("ml.jobs.create") for member in held.get(role, ())}
    return tuple(map(_subject, sorted(members)))


def _holders(access: AccessSpec, others: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the members of each role, from teams and from ``others``, in the table's order of roles."""
    found: dict[str, dict[str, None]] = {role: {} for role in ml_roles().roles}
    for role, members in others.items():
        found[role] |= dict.fromkeys(members)
    for team in access.teams or ():
        for role in team.roles or ():
            found[role] |= dict.fromkeys(team.members or ())
    return {role: tuple(sorted(members)) for role, members in found.items() if members}


def _custom_role(spec: EnvironmentSpec, role: str, reach: Reach) -> CustomRolePlan | None:
    rights = {right for ability in ml_roles().abilities_of(role) for right in ability.rights.get(reach, ())}
    if not rights:
        return None
    key = f"{role}-{reach}"
    role_id = custom_role_id(spec.project, spec.name, key)
    return CustomRolePlan(key, role_id, f"encamp {spec.name}: {role}, {reach}", tuple(sorted(rights)))


def _require_within_limits(plan: AccessPlan) -> None:
    """Refuse access beyond IAM's limits before anything is made; jobs and the project's own members come on top.

    Raises:
        PlanError: a policy would have more members, groups or conditions than IAM takes.
    """
    services = plan.audit.services.values() if plan.audit is not None else ()
    exempted = [member for kinds in services for _ in kinds for member in (plan.audit.exempted if plan.audit else ())]
    for policy, reaches in _POLICIES.items():
        bindings = [
            PolicyBinding(each.role, (each.member,), each.condition.expression if each.condition else None)
            for each in plan.members
            if each.reach in reaches
        ]
        for problem in policy_problems(bindings, exempted if policy == "project" else ()):
            raise PlanError(
                f"the policy of the {policy} {problem.message}",
                where="encamp:environment.access.teams",
                hint="name a group (group:NAME@DOMAIN) in place of its people",
            )


def _pods(spec: EnvironmentSpec, role: str) -> Iterator[SubjectPlan]:
    """Yield the account of drivers' pods, which reach the API server by their own tokens."""
    account = driver_account(spec)
    if account is not None and role == DRIVER_ROLE:
        yield SubjectPlan("ServiceAccount", account[0], account[0])


def _subject(member: str) -> SubjectPlan:
    """Return a member as GKE's subject: its e-mail, or the whole name of a federated one.

    Source: cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control
    """
    kind, _, name = member.partition(":")
    if kind == "principal":
        return SubjectPlan("User", member)
    return SubjectPlan("Group" if kind == "group" else "User", name)


def _audit(spec: EnvironmentSpec, audit: AuditSpec) -> AuditPlan:
    kinds = (*_LOOKS, *(_DATA if audit.data_reads else ()))
    services = dict.fromkeys(AUDITED, kinds) if audit.data_access else {}
    exempted = tuple(audit.exempted or ())
    if audit.sink is None:
        return AuditPlan(services, exempted, None)
    bucket = audit.sink.bucket
    days = (audit.sink.retention_days or _AUDIT_RETENTION_DAYS) if bucket is not None else None
    sink = AuditSinkPlan(
        name=environment_name(spec.project, spec.name, "encamp-audit"),
        filter=" OR ".join(f'log_id("cloudaudit.googleapis.com/{log}")' for log in _AUDIT_LOGS),
        bucket=bucket,
        destination=audit.sink.destination or f"storage.googleapis.com/{bucket}",
        retention_days=days,
        protect=spec.protect if spec.protect is not None else not spec.is_sandbox,
    )
    return AuditPlan(services, exempted, sink)
