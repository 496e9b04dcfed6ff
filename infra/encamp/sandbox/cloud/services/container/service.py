"""GKE as one API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.errors import not_found
from encamp.sandbox.cloud.rest.api import Api
from encamp.sandbox.cloud.rest.routes import Route
from encamp.sandbox.cloud.services.container.cluster_fill import VERSION
from encamp.sandbox.cloud.services.container.clusters import CLUSTER_METHODS, CLUSTERS
from encamp.sandbox.cloud.services.container.node_pools import NODE_POOLS, POOL_METHODS
from encamp.sandbox.cloud.services.container.style import shown_operation

if TYPE_CHECKING:
    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.cloud.rest.routes import Ask

_LOCATION: Final = "projects/{project}/locations/{location}"


async def _operations(ask: Ask) -> dict[str, Any]:
    ask.require("container.operations.list")
    below = ask.parent.removesuffix("/locations/-")
    found = [one for one in ask.cloud.operations.below(below) if one.target.startswith(f"{below}/")]
    shown = [shown_operation(one) for one in found if "/clusters/" in one.target]
    return {"operations": shown} if shown else {}


async def _operation(ask: Ask) -> dict[str, Any]:
    ask.require("container.operations.get")
    found = ask.cloud.operations.find(ask.name)
    if found is None:
        raise not_found(ask.name)
    return shown_operation(found)


async def _server_config(ask: Ask) -> dict[str, Any]:
    ask.require("container.clusters.list")
    channels = [{"channel": name, "defaultVersion": VERSION} for name in ("RAPID", "REGULAR", "STABLE", "EXTENDED")]
    return {
        "defaultClusterVersion": VERSION,
        "validMasterVersions": [VERSION],
        "validNodeVersions": [VERSION],
        "defaultImageType": "COS_CONTAINERD",
        "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
        "channels": [{**one, "validVersions": [VERSION]} for one in channels],
    }


def container(cloud: Cloud) -> Api:
    """Serve container.googleapis.com."""
    methods = (
        *CLUSTER_METHODS,
        *POOL_METHODS,
        Route(f"{_LOCATION}/operations", ("GET",), _operations),
        Route(f"{_LOCATION}/operations/{{operation}}", ("GET",), _operation),
        Route(f"{_LOCATION}/serverConfig", ("GET",), _server_config),
    )
    return Api(cloud, "container", ("v1", "v1beta1"), (CLUSTERS, NODE_POOLS), methods)
