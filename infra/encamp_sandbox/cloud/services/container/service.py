"""GKE as one API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from encamp_sandbox.cloud.errors import not_found
from encamp_sandbox.cloud.faults import FaultKind
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.services.container.cluster_fill import VERSION
from encamp_sandbox.cloud.services.container.clusters import CLUSTER_METHODS, CLUSTERS
from encamp_sandbox.cloud.services.container.node_pools import NODE_POOLS, POOL_METHODS
from encamp_sandbox.cloud.services.container.style import begin, shown_operation

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.faults import Asked, FaultError
    from encamp_sandbox.cloud.rest.routes import Ask

_LOCATION: Final = "projects/{project}/locations/{location}"
#: Creates that a zone may have no machines for, and the types of their operations.
_MADE_OF_MACHINES: Final = {"container:nodePools": "CREATE_NODE_POOL", "container:clusters": "CREATE_CLUSTER"}


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


class _Gke(Api):
    """GKE accepts a create of nodes before it knows of machines: for want of them its operation fails."""

    def failed(self, asked: Asked, error: FaultError) -> Response | None:
        """Return the operation that ends with a stockout; None for other faults."""
        verb = _MADE_OF_MACHINES.get(asked.type)
        if error.kind is not FaultKind.STOCKOUT or asked.operation != "create" or verb is None:
            return None
        return JSONResponse(begin(verb, asked.name, self._cloud, failure=error.message))


def container(cloud: Cloud) -> Api:
    """Serve container.googleapis.com."""
    methods = (
        *CLUSTER_METHODS,
        *POOL_METHODS,
        Route(f"{_LOCATION}/operations", ("GET",), _operations),
        Route(f"{_LOCATION}/operations/{{operation}}", ("GET",), _operation),
        Route(f"{_LOCATION}/serverConfig", ("GET",), _server_config),
    )
    return _Gke(cloud, "container", ("v1", "v1beta1"), (CLUSTERS, NODE_POOLS), methods)
