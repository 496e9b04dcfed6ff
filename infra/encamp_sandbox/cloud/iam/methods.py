"""The three methods by which every API serves a resource's policy: getIamPolicy, setIamPolicy, testIamPermissions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.iam.lint import check_audit_configs
from encamp_sandbox.cloud.iam.policies import Binding
from encamp_sandbox.cloud.rest.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask


def policy_routes(template: str, permission: str, resource_of: Callable[[Ask], str]) -> Iterable[Route]:
    """Yield the methods for resources of a template.

    Args:
        template: path of one resource.
        permission: of IAM, without the verb.
        resource_of: gives the name under which the policy is kept; raises where there is no such resource.
    """
    handler = partial(partial, permission=permission, resource_of=resource_of)
    yield Route(template, ("GET", "POST"), handler(_get), verb="getIamPolicy")
    yield Route(template, ("POST",), handler(_set), verb="setIamPolicy", operation="update")
    yield Route(template, ("POST",), handler(_test), verb="testIamPermissions")


async def _get(ask: Ask, *, permission: str, resource_of: Callable[[Ask], str]) -> dict[str, Any]:
    resource = resource_of(ask)
    ask.require(f"{permission}.getIamPolicy", resource)
    return ask.cloud.policies.show(resource)


async def _set(ask: Ask, *, permission: str, resource_of: Callable[[Ask], str]) -> dict[str, Any]:
    resource = resource_of(ask)
    body = await ask.call.json()
    policy = body.get("policy") or {}
    changed = modified_roles(ask.cloud.policies.bindings(resource), policy)
    ask.cloud.access.require(
        ask.call.principal, f"{permission}.setIamPolicy", resource=resource, modified_roles=changed
    )
    return set_policy(ask.cloud, resource, policy, audits="auditConfigs" in str(body.get("updateMask", "")))


async def _test(ask: Ask, *, permission: str, resource_of: Callable[[Ask], str]) -> dict[str, Any]:
    del permission
    resource = resource_of(ask)
    asked = (await ask.call.json()).get("permissions") or []
    access, principal = ask.cloud.access, ask.call.principal
    given = [name for name in asked if access.allows(principal, name, resource=resource)]
    return {"permissions": given} if given else {}


def set_policy(cloud: Cloud, resource: str, policy: Mapping[str, Any], *, audits: bool = False) -> dict[str, Any]:
    """Judge a whole policy and set it; audit configs stay unless ``audits`` says that they are part of it.

    Raises:
        GoogleError: 400 for what Google refuses, 409 for a stale etag.
    """
    bindings = [Binding.of(data) for data in policy.get("bindings") or ()]
    cloud.access.check_policy(resource, bindings, version=int(policy.get("version") or 0))
    configs = list(policy.get("auditConfigs") or ()) if audits else None
    check_audit_configs(configs or ())
    return cloud.policies.replace(resource, bindings, etag=policy.get("etag"), audit_configs=configs)


def modified_roles(present: Iterable[Binding], policy: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the roles whose members, or whose conditions, a new policy changes.

    Source: cloud.google.com/iam/docs/setting-limits-on-granting-roles.
    """
    news = [Binding.of(data) for data in policy.get("bindings") or ()]
    before, after = (
        {(each.role, str(each.condition), who) for each in some for who in each.members} for some in (present, news)
    )
    return tuple(sorted({role for role, _, _ in before ^ after}))
