"""The answers' form of an API: of changes, lists and errors.

``Plain`` is the form of the newer APIs, which answer a change with the resource; ``LongRunning`` answers creates and
deletes with a google.longrunning.Operation. Compute Engine and GKE have forms of their own beside their services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.calls import page
from encamp_sandbox.cloud.errors import GoogleError, aborted, already_exists, not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.operations import Operation
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.store import CloudResource

Shown = dict[str, Any]


class Plain:
    """Answers a change with the resource, and a delete with nothing."""

    #: Query parameter that says how long a page is.
    page_size = "pageSize"
    #: Fields that a patch does not change.
    ignored: tuple[str, ...] = ("etag", "name", "createTime", "updateTime")

    def __init__(self, *, etag: bool = False) -> None:
        self._etag = etag

    def decorate(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return fields that every resource of the API has."""
        del cloud
        return {"name": resource.name, **({"etag": resource.etag} if self._etag else {})}

    def created(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the answer of a create."""
        del resource, cloud
        return shown

    def changed(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the answer of an update."""
        del resource, cloud
        return shown

    def deleted(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return the answer of a delete."""
        del resource, cloud
        return {}

    def listed(self, ask: Ask, plural: str, items: list[Shown]) -> Shown:
        """Return one page of a list."""
        shown, following = page(items, ask.call.query, self.page_size)
        answer: Shown = {plural: shown} if shown else {}
        return {**answer, "nextPageToken": following} if following else answer

    def check_fresh(self, resource: CloudResource, patch: Mapping[str, Any], query: Mapping[str, str]) -> None:
        """Refuse a change by a caller who has read an older state.

        Raises:
            GoogleError: 409.
        """
        given = patch.get("etag") or query.get("etag")
        if self._etag and given not in (None, "", resource.etag):
            raise aborted(f"The etag of {resource.name} has changed.")

    def missing(self, name: str) -> GoogleError:
        """Return the error for a missing resource."""
        return not_found(name)

    def taken(self, name: str) -> GoogleError:
        """Return the error for a name that is taken."""
        return already_exists(name)

    def in_use(self, resource: CloudResource, user: str) -> GoogleError:
        """Return the error for a resource that another one uses and that cannot be deleted."""
        message = f"The resource '{resource.name}' is already being used by '{user}'"
        return GoogleError(400, message, reason="failedPrecondition", status="FAILED_PRECONDITION")


class LongRunning(Plain):
    """Answers creates and deletes with a google.longrunning.Operation; updates with the resource.

    Args:
        updates: whether updates are operations, too.
    """

    def __init__(self, *, etag: bool = False, updates: bool = False) -> None:
        super().__init__(etag=etag)
        self._updates = updates

    def created(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the operation of a create, with the resource as its response."""
        return _begun(resource, "create", cloud, shown)

    def changed(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the resource, or the operation of an update."""
        return _begun(resource, "update", cloud, shown) if self._updates else shown

    def deleted(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return the operation of a delete."""
        return _begun(resource, "delete", cloud, {})


def _begun(resource: CloudResource, verb: str, cloud: Cloud, response: Shown) -> Shown:
    parts = resource.name.split("/")
    place = "/".join(parts[:4]) if "locations" in parts else "/".join(parts[:2])
    detail = {"response": {"@type": "type.googleapis.com/google.protobuf.Empty"} | response}
    return operation_shown(cloud.operations.begin(f"{place}/operations", verb, resource.name, detail))


def operation_shown(operation: Operation) -> Shown:
    """Return a google.longrunning.Operation."""
    shown: Shown = {"name": operation.name, "metadata": {"target": operation.target, "verb": operation.verb}}
    return {**shown, "done": True, **operation.detail} if operation.done else shown
