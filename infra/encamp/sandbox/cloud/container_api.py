"""The container API (v1): clusters and node pools, read, resized and deleted.

Changes answer with an operation that is done already: what was deleted is gone from every list at once.
Source: cloud.google.com/kubernetes-engine/docs/reference/rest/v1.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp.sandbox.cloud import container_shapes as shapes
from encamp.sandbox.cloud.calls import no_such_method
from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp.sandbox.cloud.access import Access
    from encamp.sandbox.cloud.calls import Call
    from encamp.sandbox.cloud.store import CloudResource, CloudStore

_MAX_NODES = 15000


class ContainerApi:
    """Serves container.googleapis.com."""

    def __init__(self, store: CloudStore, access: Access) -> None:
        self._store = store
        self._access = access

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        match call.plain:
            case ("v1", "projects", project, "locations" | "zones", location, *rest):
                parent = f"projects/{project}/locations/{location}"
                return JSONResponse(await self._below(call, parent, rest))
        raise no_such_method(call)

    async def _below(self, call: Call, parent: str, rest: list[str]) -> dict[str, Any]:
        match call.method, rest:
            case "GET", [*_]:
                return self._read(call, parent, rest)
            case "DELETE", ["clusters", name]:
                self._access.require(call.principal, "container.clusters.delete")
                return self._delete(parent, f"{parent}/clusters/{name}", "DELETE_CLUSTER")
            case "DELETE", ["clusters", name, "nodePools", pool]:
                self._access.require(call.principal, "container.clusters.update")
                return self._delete(parent, f"{parent}/clusters/{name}/nodePools/{pool}", "DELETE_NODE_POOL")
            case "POST", ["clusters", name, "nodePools", pool] if call.verb == "setSize":
                self._access.require(call.principal, "container.clusters.update")
                full = f"{parent}/clusters/{name}/nodePools/{pool}"
                set_node_count(self._store, full, (await call.json()).get("nodeCount"))
                return self._operation(parent, full, "SET_NODE_POOL_SIZE")
        raise no_such_method(call)

    def _read(self, call: Call, parent: str, rest: list[str]) -> dict[str, Any]:
        self._access.require(call.principal, "container.clusters.get")
        match rest:
            case ["clusters"]:
                return _listed("clusters", [self._cluster(found) for found in self._clusters(parent)])
            case ["operations"]:
                found = self._store.all_of("operation", parent.removesuffix("/locations/-"))
                return _listed("operations", [operation.body for operation in found])
            case ["operations", name]:
                return self._store.get(f"{parent}/operations/{name}").body
            case ["clusters", name]:
                return self._cluster(self._store.get(f"{parent}/clusters/{name}"))
            case ["clusters", name, "nodePools"]:
                cluster = self._store.get(f"{parent}/clusters/{name}")
                return _listed("nodePools", [shapes.node_pool(pool) for pool in self._pools(cluster)])
            case ["clusters", name, "nodePools", pool]:
                return shapes.node_pool(self._store.get(f"{parent}/clusters/{name}/nodePools/{pool}"))
        raise no_such_method(call)

    def _clusters(self, parent: str) -> list[CloudResource]:
        return self._store.all_of("cluster", parent.removesuffix("/locations/-"))

    def _pools(self, cluster: CloudResource) -> list[CloudResource]:
        return self._store.all_of("nodePool", cluster.name)

    def _cluster(self, cluster: CloudResource) -> dict[str, Any]:
        return shapes.cluster(cluster, self._pools(cluster))

    def _delete(self, parent: str, name: str, kind: str) -> dict[str, Any]:
        self._store.delete(name)
        return self._operation(parent, name, kind)

    def _operation(self, parent: str, target: str, kind: str) -> dict[str, Any]:
        name = f"operation-{secrets.token_hex(8)}"
        moment = timestamp()
        body = {
            "name": name,
            "zone": parent.rpartition("/")[2],
            "location": parent.rpartition("/")[2],
            "operationType": kind,
            "status": "DONE",
            "selfLink": shapes.self_link(f"{parent}/operations/{name}"),
            "targetLink": shapes.self_link(target),
            "startTime": moment,
            "endTime": moment,
        }
        return self._store.create("operation", f"{parent}/operations/{name}", body).body


def _listed(key: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: items} if items else {}


def set_node_count(store: CloudStore, name: str, count: object) -> CloudResource:
    """Set how many nodes a pool has now.

    Raises:
        GoogleError: 400 for what is no count of nodes, 404 for an unknown pool.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MAX_NODES:
        raise GoogleError(400, f"nodeCount has to be a whole number from 0 to {_MAX_NODES}.")
    pool = store.get(name)
    if pool.kind != "nodePool":
        raise GoogleError(400, f"{name} is no node pool.")
    return store.merge(name, {"facts": {**pool.body["facts"], "currentNodeCount": count}})
