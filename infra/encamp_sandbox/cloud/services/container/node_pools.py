"""Node pools: made by the collection, changed by methods of their own.

``currentNodeCount`` and ``placedTopology`` (by a policy's name) of a node pool are the sandbox's own additions.
Source: cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.collection import Body, Collection
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.values import merged
from encamp_sandbox.cloud.services.container.machine_rules import MACHINE_RULES
from encamp_sandbox.cloud.services.container.pool_fill import fill_pool
from encamp_sandbox.cloud.services.container.pool_rules import POOL_RULES
from encamp_sandbox.cloud.services.container.style import Container, begin, change, check_idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.store import CloudResource

MAX_NODES: Final = 15000
_PATH: Final = "projects/{project}/locations/{location}/clusters/{cluster}/nodePools"
_ONE: Final = f"{_PATH}/{{nodePool}}"
#: Fields of UpdateNodePoolRequest that stand beside the config in a pool.
_OF_THE_POOL = ("locations", "upgradeSettings", "queuedProvisioning", "nodeDrainConfig", "maintenancePolicy")
#: Fields of UpdateNodePoolRequest that wrap a list or a map, by what they wrap.
_WRAPPED = {"tags": "tags", "taints": "taints", "labels": "labels", "resourceLabels": "labels"}
_IGNORED = ("name", "nodePoolId", "clusterId", "projectId", "zone", "etag")


def _identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
    pool = body.get("nodePool")
    if not isinstance(pool, dict) or not pool.get("name"):
        raise GoogleError(400, "NodePool.name is required.", reason="required")
    check_idle(ask.parent, ask.cloud)
    return pool["name"], {key: value for key, value in pool.items() if key != "name"}


def _delete(pool: CloudResource, cloud: Cloud) -> None:
    check_idle(pool.name, cloud)
    cloud.store.delete(pool.name)


NODE_POOLS: Final = Collection(
    kind="nodePool",
    path=_PATH,
    style=Container("NODE_POOL"),
    permission="container.clusters",
    permissions={
        "create": "container.clusters.update",
        "delete": "container.clusters.update",
        "list": "container.clusters.get",
    },
    identify=_identify,
    rules=(*POOL_RULES, *MACHINE_RULES),
    fill=fill_pool,
    needs=lambda change: (change.parent,),
    deleted=_delete,
)


async def _update(ask: Ask) -> Body:
    """Return the pool after UpdateNodePool: fields of config and pool are each replaced if given."""
    ask.require("container.clusters.update", ask.name)
    present = NODE_POOLS.find(ask.name, ask.cloud)
    given = await ask.call.json()
    NODE_POOLS.style.check_fresh(present, given, {})
    body: Body = {**present.body, "config": dict(present.body["config"])}
    for key, value in given.items():
        if key in _IGNORED:
            continue
        if key == "nodeVersion":
            body["version"] = value
        elif key == "nodeNetworkConfig":
            body["networkConfig"] = merged(present.body.get("networkConfig") or {}, value)
        elif key in _OF_THE_POOL:
            body[key] = value
        else:
            inner = _WRAPPED.get(key)
            body["config"][key] = value.get(inner) or {} if inner is not None and isinstance(value, dict) else value
    return change(NODE_POOLS, ask, body, "UPDATE_NODE_POOL")


async def _set_field(ask: Ask, *, field: str, verb: str) -> Body:
    """Replace one field of a pool."""
    ask.require("container.clusters.update", ask.name)
    present = NODE_POOLS.find(ask.name, ask.cloud)
    given = (await ask.call.json()).get(field)
    if not isinstance(given, dict):
        raise GoogleError(400, f"{field} is required.", reason="required")
    return change(NODE_POOLS, ask, {**present.body, field: given}, verb)


async def _set_size(ask: Ask) -> Body:
    """Set the number of nodes in each zone."""
    ask.require("container.clusters.update", ask.name)
    count = (await ask.call.json()).get("nodeCount")
    check_idle(ask.name, ask.cloud)
    zones = len(NODE_POOLS.find(ask.name, ask.cloud).body["locations"])
    set_node_count(ask.cloud, ask.name, count, zones=zones)
    return begin("SET_NODE_POOL_SIZE", ask.name, ask.cloud)


def set_node_count(cloud: Cloud, name: str, count: object, *, zones: int = 1) -> CloudResource:
    """Set how many nodes a pool has now in each of so many zones.

    Raises:
        GoogleError: 400 for what is no count of nodes, 404 for an unknown pool.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_NODES:
        raise GoogleError(400, f"nodeCount has to be a whole number from 0 to {MAX_NODES}.")
    pool = cloud.store.get(name)
    if pool.kind != "nodePool":
        raise GoogleError(400, f"{name} is no node pool.")
    return cloud.store.merge(name, {"currentNodeCount": count * zones})


def _method(verb: str, handler: Callable[[Ask], Any]) -> Route:
    return Route(_ONE, ("POST",), handler, verb=verb, operation="update")


POOL_METHODS: Final = (
    Route(_ONE, ("PUT",), _update, operation="update"),
    _method("setSize", _set_size),
    _method("setAutoscaling", partial(_set_field, field="autoscaling", verb="UPDATE_NODE_POOL")),
    _method("setManagement", partial(_set_field, field="management", verb="SET_NODE_POOL_MANAGEMENT")),
)
