"""GKE's node pools.

Source: hashicorp/terraform-provider-google-beta google-beta/services/container/resource_container_node_pool.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.values import short
from encamp_sandbox.gcp_provider.client import retried
from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Context, Made, ResourceType
from encamp_sandbox.gcp_provider.types import node_config

if TYPE_CHECKING:
    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_CONFIG = "nodeConfig"
_OWN = frozenset(
    {"cluster", "deletionPolicy", "ignoreNodeCountChanges", "location", "name", "namePrefix", "nodeCount", "project"}
)
#: Properties that UpdateNodePoolRequest wraps in a message, and the field of that message.
_WRAPPED: Final = {"tags": "tags", "taints": "taints", "labels": "labels", "resourceLabels": "labels"}
_RENAMED: Final = {"nodeLocations": "locations", "version": "nodeVersion", "networkConfig": "nodeNetworkConfig"}


def busy(error: GoogleError) -> bool:
    """Whether a refusal passes when another operation on the cluster ends."""
    return error.code == 400 and error.reason == "failedPrecondition"  # noqa: PLR2004


class Gke(ResourceType):
    """A type of GKE: every change is an operation, and waits while another runs on the cluster.

    A create that the engine no longer waits for leaves a resource that names its operation; the next read waits for it.
    """

    async def ask(self, method: str, path: str, context: Context, body: Body | None = None) -> None:
        """Make a change and wait until it is done."""
        await self.done(await self.begin(method, path, context, body), path, context)

    async def begin(self, method: str, path: str, context: Context, body: Body | None = None) -> Body:
        """Ask for a change; returns its operation."""
        return await retried(
            lambda: context.rest.call(method, path, context.patience, body=body), context.patience, busy
        )

    async def done(self, operation: Body, path: str, context: Context) -> None:
        """Wait until an operation is done; ``path`` is of any resource in the same location."""
        location = "/".join(path.removeprefix(f"/{self.endpoint}/").split("/")[:4])
        await context.rest.finished(
            operation, self.path(f"{location}/operations/{operation['name']}"), context.patience
        )

    async def started(self, name: str, path: str, body: Body, inputs: Properties, context: Context) -> Made | None:
        """Ask for a create and wait until it is done.

        Returns:
            None; the resource with the name of its operation if the engine gave up while that was running.
        """
        operation = await self.begin("POST", path, context, body)
        try:
            await self.done(operation, path, context)
        except GoogleError:
            if not context.patience.cancelled.is_set():
                raise
            return Made(name, {**inputs, "operation": operation["name"]})
        return None

    async def resume(self, resource_id: str, outputs: Properties, context: Context) -> None:
        """Wait for the operation of a create that was cut short."""
        if operation := outputs.get("operation"):
            await self.done({"name": operation}, self.path(resource_id), context)


def cluster_of(inputs: Properties, context: Context) -> str:
    """Return the full name of a pool's cluster."""
    given = str(inputs["cluster"])
    if "projects/" in given:
        return given[given.index("projects/") :]
    return f"projects/{context.project_of(inputs)}/locations/{context.location_of(inputs)}/clusters/{given}"


def _scaling_out(scaling: Body) -> Body:
    """Return the API's autoscaling: limits that are not given are 0; a pool without the block is not scaled."""
    limits = dict.fromkeys(("minNodeCount", "maxNodeCount", "totalMinNodeCount", "totalMaxNodeCount"), 0)
    return {"enabled": True, **limits, **scaling}


def _scaling_in(scaling: Body) -> Body | None:
    if not scaling.get("enabled"):
        return None
    limits = dict.fromkeys(("minNodeCount", "maxNodeCount", "totalMinNodeCount", "totalMaxNodeCount"), 0)
    return {**limits, **{key: value for key, value in scaling.items() if key != "enabled"}}


class _Pools(Gke):
    """Node pools."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the pool."""
        cluster = cluster_of(inputs, context)
        pool = {"name": inputs["name"], **self.mapping.body(self.schema.fields, inputs)}
        count = inputs.get("initialNodeCount", inputs.get("nodeCount"))
        if count is not None:
            pool["initialNodeCount"] = count
        name, path = f"{cluster}/nodePools/{inputs['name']}", self.path(f"{cluster}/nodePools")
        unfinished = await self.started(name, path, {"nodePool": pool}, inputs, context)
        return unfinished or await self.found(name, inputs, context)

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Change the pool, one request for each group of properties that the API changes together."""
        path = self.path(made.resource_id)
        body = self.mapping.body(self.schema.fields, inputs)
        top = {str(one[0]) for one in changed}
        if "autoscaling" in top:
            wanted = {"autoscaling": body.get("autoscaling") or {"enabled": False}}
            await self.ask("POST", f"{path}:setAutoscaling", context, wanted)
        if "management" in top:
            await self.ask("POST", f"{path}:setManagement", context, {"management": body.get("management") or {}})
        if "nodeCount" in top:
            await self.ask("POST", f"{path}:setSize", context, {"nodeCount": inputs.get("nodeCount")})
        wanted = {key: value for one in sorted(changed, key=str) for key, value in _request(one, body).items()}
        if wanted:
            await self.ask("PUT", path, context, wanted)
        return await self.found(made.resource_id, inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete the pool; it may have gone with its cluster."""
        del inputs
        if await context.rest.find(self.path(resource_id), context.patience) is not None:
            await self.ask("DELETE", self.path(resource_id), context)


def _request(path: Path, body: Body) -> Body:
    """Return the part of UpdateNodePoolRequest for one changed property."""
    first = str(path[0])
    if first in ("autoscaling", "management", "nodeCount") or first in _OWN:
        return {}
    if first != _CONFIG:
        name = _RENAMED.get(first, first)
        return {name: body.get({"nodeLocations": "locations"}.get(first, first))}
    second = str(path[1]) if len(path) > 1 else ""
    config = body.get("config") or {}
    if second in _WRAPPED:
        empty: Any = [] if second in ("tags", "taints") else {}
        return {second: {_WRAPPED[second]: config.get(second) or empty}}
    name = {"loggingVariant": "loggingConfig", "guestAccelerators": "accelerators"}.get(second, second)
    return {name: config.get(name)}


def _show(answer: Body, inputs: Properties, context: Context) -> Body:
    """Return Pulumi's properties beside the API's; counts are those of the instance groups unless they are ignored."""
    link = str(answer["selfLink"])
    cluster = link[link.index("projects/") : link.index("/nodePools/")]
    zones = answer.get("locations") or [""]
    initial = int(answer.get("initialNodeCount") or 0)
    ignored = inputs.get("ignoreNodeCountChanges")
    count = inputs.get("nodeCount", initial) if ignored else int(answer.get("currentNodeCount") or 0) // len(zones)
    groups = list(answer.get("instanceGroupUrls") or ())
    mapped = NODE_POOL.mapping.properties(NODE_POOL.schema.fields, answer)
    return {
        _CONFIG: node_config.shown(mapped.get(_CONFIG) or {}, inputs.get(_CONFIG)),
        "cluster": inputs.get("cluster") or short(cluster),
        "location": cluster.split("/")[3],
        "name": answer["name"],
        "namePrefix": "",
        "nodeCount": count,
        "initialNodeCount": initial,
        "managedInstanceGroupUrls": []
        if ignored
        else [url.replace("/instanceGroupManagers/", "/instanceGroups/") for url in groups],
        "operation": "",
        "project": context.project,
    }


def _fixed_or_scaled(inputs: Properties) -> list[tuple[str, str]]:
    if inputs.get("autoscaling") is None or inputs.get("nodeCount") is None:
        return []
    text = "a node pool is either of a fixed size (node_count) or autoscaled (autoscaling), not both"
    return [("nodeCount", text)]


NODE_POOL: Final = _Pools(
    "gcp:container/nodePool:NodePool",
    "container/v1beta1",
    lambda inputs, context: f"{cluster_of(inputs, context)}/nodePools",
    TypeMapping(
        names={
            _CONFIG: "config",
            "nodeLocations": "locations",
            "maxPodsPerNode": "maxPodsConstraint.maxPodsPerNode",
            "networkConfig.podCidrOverprovisionConfig.disabled": "disable",
            **node_config.names(_CONFIG),
        },
        longs=frozenset({"maxPodsPerNode"}) | node_config.longs(_CONFIG),
        out={"autoscaling": _scaling_out, **node_config.out(_CONFIG)},
        into={"autoscaling": _scaling_in, **node_config.into(_CONFIG)},
        own=_OWN,
    ),
    show=_show,
    suppress={
        f"{_CONFIG}.resourceLabels": node_config.same_labels,
        f"{_CONFIG}.labels": node_config.same_labels,
        f"{_CONFIG}.oauthScopes": node_config.same_scopes,
    },
    checks=_fixed_or_scaled,
)
