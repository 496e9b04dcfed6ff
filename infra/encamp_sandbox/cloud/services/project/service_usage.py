"""Service Usage (v1 and v1beta1): which APIs are enabled, and the agents of Google's services.

Enabling a service gates nothing in the sandbox, but its agent exists only after it. An agent is never deleted.
Sources: cloud.google.com/service-usage/docs/reference/rest, cloud.google.com/iam/docs/create-service-agents.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.calls import page
from encamp_sandbox.cloud.errors import GoogleError, failed_precondition
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.styles import operation_shown
from encamp_sandbox.cloud.services.kms.use import service_agent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask

#: APIs that every project has on from its creation: cloud.google.com/service-usage/docs/enabled-service.
_ALWAYS_ON = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com", "cloudbilling.googleapis.com")
_SERVICE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_KIND = "service"
_MOST_AT_ONCE = 20


def _enabled(cloud: Cloud) -> set[str]:
    return {one.short_name for one in cloud.store.all_of(_KIND)} | set(_ALWAYS_ON)


def _shown(cloud: Cloud, service: str, *, enabled: bool) -> dict[str, Any]:
    name = f"projects/{cloud.number}/services/{service}"
    state = "ENABLED" if enabled else "DISABLED"
    return {"name": name, "config": {"name": service}, "state": state, "parent": f"projects/{cloud.number}"}


async def _list(ask: Ask) -> dict[str, Any]:
    ask.require("serviceusage.services.list")
    shown, following = page(
        [_shown(ask.cloud, service, enabled=True) for service in sorted(_enabled(ask.cloud))], ask.call.query
    )
    return {"services": shown, **({"nextPageToken": following} if following else {})}


async def _get(ask: Ask) -> dict[str, Any]:
    ask.require("serviceusage.services.get")
    service = ask.variables["service"]
    return _shown(ask.cloud, service, enabled=service in _enabled(ask.cloud))


async def _enable(ask: Ask) -> dict[str, Any]:
    ask.require("serviceusage.services.enable")
    return _switched_on(ask, [ask.variables["service"]])


async def _enable_several(ask: Ask) -> dict[str, Any]:
    ask.require("serviceusage.services.enable")
    wanted = [str(one) for one in (await ask.call.json()).get("serviceIds") or ()]
    if not 0 < len(wanted) <= _MOST_AT_ONCE:
        raise GoogleError(400, f"1 to {_MOST_AT_ONCE} services can be enabled at once, not {len(wanted)}.")
    return _switched_on(ask, wanted)


def _switched_on(ask: Ask, services: Iterable[str]) -> dict[str, Any]:
    cloud, wanted = ask.cloud, list(services)
    for service in wanted:
        if not _SERVICE.fullmatch(service):
            raise GoogleError(
                400,
                f"{service} is no name of a service, such as container.googleapis.com",
                belief="services-have-names",
            )
    with cloud.database.transaction():
        for service in wanted:
            name = f"projects/{cloud.project}/services/{service}"
            if cloud.store.find(name) is None:
                cloud.store.create(_KIND, name, {})
        shown = [_shown(cloud, service, enabled=True) for service in wanted]
        detail = {"response": {"services": shown} if len(wanted) > 1 else {"service": shown[0]}}
        target = f"projects/{cloud.project}/services"
        return operation_shown(cloud.operations.begin("operations/serviceusage", "enable", target, detail))


async def _disable(ask: Ask) -> dict[str, Any]:
    ask.require("serviceusage.services.disable")
    cloud, service = ask.cloud, ask.variables["service"]
    name = f"projects/{cloud.project}/services/{service}"
    if cloud.store.find(name) is not None:
        cloud.store.delete(name)
    detail = {"response": {"service": _shown(cloud, service, enabled=False)}}
    return operation_shown(cloud.operations.begin("operations/serviceusage", "disable", name, detail))


async def _identity(ask: Ask) -> dict[str, Any]:
    """Make the agent of a service, or find it."""
    ask.require("serviceusage.services.enable")
    service = ask.variables["service"]
    if not _SERVICE.fullmatch(service):
        raise GoogleError(400, f"{service} is no name of a service, such as tpu.googleapis.com")
    if service not in _enabled(ask.cloud):
        raise failed_precondition(f"Service {service} does not exist or is not enabled; it was not found.")
    email = service_agent(service.partition(".")[0], ask.cloud.project)
    detail = {"response": {"email": email, "uniqueId": ask.cloud.number}}
    return operation_shown(ask.cloud.operations.begin("operations/serviceusage", "identity", service, detail))


async def _operation(ask: Ask) -> dict[str, Any]:
    found = ask.cloud.operations.find(ask.name)
    if found is None:
        raise GoogleError(404, f"Operation {ask.name} was not found.", belief="api-missing-is-404")
    return operation_shown(found)


def service_usage(cloud: Cloud) -> Api:
    """Serve serviceusage.googleapis.com."""
    all_, one = "projects/{project}/services", "projects/{project}/services/{service}"
    change = partial(Route, http=("POST",), collection="services")
    methods = (
        Route(all_, ("GET",), _list),
        Route(one, ("GET",), _get),
        change(template=all_, handler=_enable_several, verb="batchEnable", operation="create"),
        change(template=one, handler=_enable, verb="enable", operation="create"),
        change(template=one, handler=_disable, verb="disable", operation="delete"),
        change(template=one, handler=_identity, verb="generateServiceIdentity", operation="create"),
        Route("operations/{service}/{operation}", ("GET",), _operation, collection="operations"),
    )
    return Api(cloud, "serviceusage", ("v1", "v1beta1"), (), methods)
