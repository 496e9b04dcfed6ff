"""The form of GKE's answers: every change is an operation of the cluster's location, one at a time for each cluster.

Source: cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError, failed_precondition
from encamp_sandbox.cloud.rest.rules import Change, judge
from encamp_sandbox.cloud.rest.styles import Plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.operations import Operation
    from encamp_sandbox.cloud.rest.collection import Body, Collection
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.styles import Shown
    from encamp_sandbox.cloud.store import CloudResource

_ROOT: Final = "https://container.googleapis.com/v1"
#: RESOURCE_EXHAUSTED of google.rpc.Code.
_EXHAUSTED: Final = 8


def link(name: str) -> str:
    """Return the URL of a resource."""
    return f"{_ROOT}/{name}"


def cluster_of(name: str) -> str:
    """Return the full name of the cluster that a resource is, or is part of."""
    return "/".join(name.split("/")[:6])


def check_idle(name: str, cloud: Cloud) -> None:
    """Refuse a change of a cluster on which an operation runs.

    Raises:
        GoogleError: 400 FAILED_PRECONDITION.
    """
    running = cloud.operations.running_on(cluster_of(name))
    if running is not None:
        message = f"Cluster is running incompatible operation {running.short_name}."
        raise failed_precondition(message, belief="gke-one-operation-a-cluster")


def begin(verb: str, target: str, cloud: Cloud, *, failure: str = "") -> Shown:
    """Begin an operation and show it; a ``failure`` is what it ends with (``fault-stockout-ends-operation``)."""
    parent = "/".join(target.split("/")[:4])
    error = {"code": _EXHAUSTED, "message": failure}
    detail = {"statusMessage": failure, "error": error} if failure else {}
    return shown_operation(cloud.operations.begin(f"{parent}/operations", verb, target, detail))


def change(collection: Collection, ask: Ask, body: Body, verb: str) -> Shown:
    """Judge a resource as it would be, keep it, and show the operation.

    Raises:
        GoogleError: GKE refuses it, or an operation runs on its cluster.
    """
    cloud, name = ask.cloud, ask.name
    with cloud.database.transaction():
        present = collection.find(name, cloud)
        check_idle(name, cloud)
        judge(collection.rules, Change(cloud, name, body, before=present.body, given=body))
        cloud.store.update(name, body)
        return begin(verb, name, cloud)


def shown_operation(operation: Operation) -> Shown:
    """Return an Operation."""
    location = operation.name.split("/")[3]
    shown: Shown = {
        "name": operation.short_name,
        "zone": location,
        "location": location,
        "operationType": operation.verb,
        "status": "DONE" if operation.done else "RUNNING",
        "selfLink": link(operation.name),
        "targetLink": link(operation.target),
        "startTime": operation.began,
    }
    return {**shown, "endTime": operation.began, **operation.detail} if operation.done else shown


class Container(Plain):
    """GKE's form.

    Args:
        word: of the resource in types of operations, such as ``NODE_POOL``.
    """

    ignored = ("etag", "name", "selfLink", "status", "zone", "location")

    def __init__(self, word: str) -> None:
        super().__init__(etag=True)
        self._word = word

    def decorate(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Name, URL, status and etag."""
        del cloud
        return {
            "name": resource.short_name,
            "selfLink": link(resource.name),
            "status": "RUNNING",
            "etag": resource.etag,
        }

    def created(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the operation of a create."""
        del shown
        return begin(f"CREATE_{self._word}", resource.name, cloud)

    def changed(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the operation of an update."""
        del shown
        return begin(f"UPDATE_{self._word}", resource.name, cloud)

    def deleted(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return the operation of a delete."""
        return begin(f"DELETE_{self._word}", resource.name, cloud)

    def listed(self, ask: Ask, plural: str, items: list[Shown]) -> Shown:
        """Return a whole list: GKE has no pages."""
        del ask
        return {plural: items} if items else {}

    def check_fresh(self, resource: CloudResource, patch: Mapping[str, Any], query: Mapping[str, str]) -> None:
        """Refuse a change by a caller who has read an older state.

        Raises:
            GoogleError: 409.
        """
        if patch.get("etag") not in (None, "", resource.etag):
            message = f"Provided etag does not match the latest etag of {resource.name}."
            raise GoogleError(409, message, reason="aborted", status="ABORTED", belief="api-stale-etag-is-409")
        del query
