"""Checks of the project at Google: existence, billing, APIs, permissions, quotas."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from encamp.cloud.rest import RestError
from encamp.findings import Finding, Grade
from encamp.plan.access.check import given_elsewhere
from encamp.plan.access.permissions import BILLING, QUOTAS, environment_permissions, job_permissions, roles_of
from encamp.plan.environment.parts import LOG_WRITER
from encamp.plan.machines.quotas import environment_quotas, quotas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.cloud.projects import Permitted, Projects
    from encamp.cloud.resources import Container
    from encamp.doctor.stack import Stack
    from encamp.plan.machines.quotas import QuotaNeed

#: APIs that must be on before the environment's own stack can turn on the rest.
_FIRST = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
_USAGE = "serviceusage.googleapis.com"


def project(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Examine credentials, the project and who pays for it."""
    name = stack.spec.project
    try:
        found = projects.project(name)
    except RestError as error:
        if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
            yield Finding("credentials", Grade.BAD, error.what, error.hint or "")
            return
        yield Finding("credentials", Grade.OK, "there are some, and Google takes them")
        if "cloudresourcemanager.googleapis.com" in error.what:
            advice = f"gcloud services enable {' '.join(_FIRST)} --project={name}"
        else:
            advice = "correct gcp:project, or ask for resourcemanager.projects.get"
        yield Finding("project", Grade.BAD, f"{name} is not there, or cannot be seen: {error.what}", advice)
        return
    yield Finding("credentials", Grade.OK, "there are some, and Google takes them")
    state = found.get("lifecycleState", "ACTIVE")
    if state != "ACTIVE":
        yield Finding("project", Grade.BAD, f"{name} is {state}", f"gcloud projects undelete {name}")
    else:
        yield Finding("project", Grade.OK, f"{name} (number {found.get('projectNumber', 'unknown')})")
    yield _billing(name, projects)


def _billing(name: str, projects: Projects) -> Finding:
    try:
        pays = projects.pays(name)
    except RestError as error:
        text = f"whether {name} has a billing account cannot be told: {error.what}"
        return Finding("billing", Grade.NOTE, text, "ask for resourcemanager.projects.get, and cloudbilling to be on")
    if pays:
        return Finding("billing", Grade.OK, "a billing account stands behind the project")
    advice = f"gcloud billing projects link {name} --billing-account=ACCOUNT"
    return Finding("billing", Grade.BAD, "no billing account stands behind the project", advice)


def services(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Examine the APIs; an environment's stack turns on what it needs, once it can ask for that."""
    name = stack.spec.project
    wanted = set(stack.environment.services) | set(_FIRST)
    missing = sorted(wanted - projects.services(name) - {_USAGE})
    if not missing:
        yield Finding("APIs", Grade.OK, f"all {len(wanted)} are on")
        return
    advice = f"gcloud services enable {' '.join(missing)} --project={name}"
    first = [one for one in missing if one in _FIRST]
    if stack.job is None and not first:
        text = f"{len(missing)} are off, and `pulumi up` turns them on: {', '.join(missing)}"
        yield Finding("APIs", Grade.NOTE, text)
    else:
        yield Finding("APIs", Grade.BAD, f"off: {', '.join(first if stack.job is None else missing)}", advice)


def rights(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Check the caller's permissions in the project, and on the billing account if a budget is made."""
    needed = job_permissions(stack.job) if stack.job is not None else environment_permissions(stack.environment)
    needed = {**needed, **roles_of(QUOTAS)}
    found = projects.permitted(stack.spec.project, list(needed))
    if stack.job is not None and stack.spec.access is not None:
        # Permissions that a team's roles give elsewhere are no lack of the project's.
        elsewhere = given_elsewhere(set(needed) - found.given)
        if elsewhere:
            text = (
                f"{len(elsewhere)} permissions are given by the environment's teams under conditions or in the cluster"
            )
            yield Finding("rights of teams", Grade.NOTE, text, "ask `encamp access check YOU ml.jobs.create`")
        needed = {permission: role for permission, role in needed.items() if permission not in elsewhere}
    yield from _lacking("rights", needed, found, "the project")
    budget = stack.environment.budget if stack.job is None else None
    if budget is not None:
        found = projects.permitted_on_billing(budget.billing_account, list(roles_of(BILLING)))
        yield from _lacking("rights on billing", roles_of(BILLING), found, f"account {budget.billing_account}")


def _lacking(subject: str, needed: Mapping[str, str], found: Permitted, where: str) -> Iterator[Finding]:
    missing = sorted(set(needed) - found.given - found.unknown)
    if missing:
        roles = sorted({needed[permission] for permission in missing})
        text = f"{len(missing)} of {len(needed)} permissions are missing on {where}: {', '.join(missing)}"
        yield Finding(subject, Grade.BAD, text, f"ask for {', '.join(roles)}")
    else:
        yield Finding(subject, Grade.OK, f"all {len(needed) - len(found.unknown)} permissions are there on {where}")
    if found.unknown:
        yield Finding(subject, Grade.NOTE, f"these cannot be asked for on {where}: {', '.join(sorted(found.unknown))}")


def members(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Whether the organization lets roles be given to the group of Google's that writes usage logs."""
    plan = stack.environment
    if stack.job is not None or plan.logs is None or "artifactsBucket" in plan.adopted:
        return
    advice = "leave storage.logsBucket out and take access.audit.dataReads, or have the group's customer allowed"
    try:
        allowed = projects.allowed_members(stack.spec.project)
    except RestError as error:
        text = f"whether the organization lets {LOG_WRITER} write usage logs cannot be told: {error.what}"
        yield Finding("members", Grade.NOTE, text, f"where `up` fails at its grant: {advice}")
        return
    if allowed:
        whose = ", ".join(sorted(allowed))
        text = f"roles are given to members of {whose} only, and {LOG_WRITER} writes usage logs (org-domain-restricted)"
        yield Finding("members", Grade.NOTE, text, advice)
    else:
        yield Finding("members", Grade.OK, "the organization lets anybody be given roles")


def quota(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Check the plan's largest use of each quota against what is left of it."""
    if stack.job is None and stack.environment.gke.system_pool is None:
        yield Finding("quota", Grade.OK, "the environment has no machines of its own")
        return
    needs = quotas(stack.job) if stack.job is not None else environment_quotas(stack.environment)
    regional = projects.regional_quotas(stack.spec.project, stack.spec.region) if needs else {}
    short = False
    for need in needs:
        if need.dimension is not None and need.family is not None:
            found = projects.family_quota(stack.spec.project, need.metric, need.region, need.dimension, need.family)
        else:
            found = regional.get(need.metric)
        if found is None:
            text = f"{need.name} in {need.region}: {need.amount} are needed, and the project's list does not have it"
            yield Finding("quota", Grade.NOTE, text, "look for it on the console's page of quotas")
            continue
        left = found.limit - (found.usage or 0.0)
        if need.amount > left:
            short = True
            yield Finding(
                "quota",
                Grade.BAD,
                _short(need, found.limit, found.usage),
                "ask for more on the console's page of quotas",
            )
    if not short:
        yield Finding("quota", Grade.OK, f"{len(needs)} were compared with the plan, none is short")


def _short(need: QuotaNeed, limit: float, usage: float | None) -> str:
    used = "" if usage is None else f", {usage:g} of them in use"
    return f"{need.name} in {need.region}: {need.amount} are needed, the limit is {limit:g}{used}"


def cluster(stack: Stack, container: Container) -> Iterator[Finding]:
    """Examine the environment's cluster, which a job needs to be there."""
    if stack.job is None:
        return
    name = stack.environment.gke.full_name
    found = container.cluster(name)
    if found is None:
        advice = "bring the environment up first: `encamp environment up`, or `pulumi up` of its stack"
        yield Finding("cluster", Grade.BAD, f"there is no cluster {name}", advice)
    elif found.get("status", "RUNNING") != "RUNNING":
        yield Finding("cluster", Grade.NOTE, f"{name} is {found['status']}", "wait until its operation has ended")
    else:
        yield Finding("cluster", Grade.OK, f"{name}, version {found.get('currentMasterVersion', 'unknown')}")
