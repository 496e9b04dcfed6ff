"""The form of Compute Engine's answers: every change is an operation, every reference a URL.

Sources: cloud.google.com/compute/docs/reference/rest/v1 (globalOperations, regionOperations),
cloud.google.com/compute/docs/naming-resources.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from encamp_sandbox.cloud.calls import page
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.rules import name_pattern
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.operations import Operation
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.styles import Shown
    from encamp_sandbox.cloud.store import CloudResource

_ROOT: Final = "https://www.googleapis.com/compute/v1"
_NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"

NAME: Final = name_pattern(
    "compute-names-are-rfc1035",
    _NAME,
    "Invalid value for field 'resource.name': '{value}'. Must be a match of regex"
    " '(?:[a-z](?:[-a-z0-9]{{0,61}}[a-z0-9])?)'",
)


def link(name: str) -> str:
    """Return the URL of a resource."""
    return f"{_ROOT}/{name}"


def numeric_id() -> str:
    """Return a new id: a 64 bit number as text."""
    return str(10**18 + secrets.randbelow(8 * 10**18))


def global_name(reference: object, collection: str, project: str) -> str:
    """Return the full name of a global resource that is given by name, partial or full URL."""
    return f"projects/{project}/global/{collection}/{short(reference)}"


class Compute(Plain):
    """Compute Engine's form.

    Args:
        kind: of the resource, such as ``compute#network``.
        fingerprint: whether an update needs the fingerprint of what it changes.
    """

    page_size = "maxResults"
    ignored = (
        "kind", "id", "selfLink", "selfLinkWithId", "creationTimestamp", "fingerprint", "region", "name", "status",
    )  # fmt: skip

    def __init__(self, kind: str, *, fingerprint: bool = False) -> None:
        super().__init__()
        self._kind = kind
        self._fingerprint = fingerprint

    def decorate(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return kind, name, URL and time of creation; of a regional resource the region, too."""
        del cloud
        parts = resource.name.split("/")
        shown: Shown = {
            "kind": self._kind,
            "name": resource.short_name,
            "selfLink": link(resource.name),
            "creationTimestamp": resource.created,
        }
        if parts[2] == "regions":
            shown["region"] = link("/".join(parts[:4]))
        return {**shown, "fingerprint": resource.etag} if self._fingerprint else shown

    def created(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the operation of an insert."""
        del shown
        return begin(resource, "insert", cloud)

    def changed(self, resource: CloudResource, shown: Shown, cloud: Cloud) -> Shown:
        """Return the operation of a patch."""
        del shown
        return begin(resource, "patch", cloud)

    def deleted(self, resource: CloudResource, cloud: Cloud) -> Shown:
        """Return the operation of a delete."""
        return begin(resource, "delete", cloud)

    def listed(self, ask: Ask, plural: str, items: list[Shown]) -> Shown:
        """Return one page of a list."""
        del plural
        shown, following = page(items, ask.call.query, self.page_size)
        answer: Shown = {"kind": f"{self._kind}List", "selfLink": link(ask.name)}
        if shown:
            answer["items"] = shown
        return {**answer, "nextPageToken": following} if following else answer

    def check_fresh(self, resource: CloudResource, patch: Mapping[str, Any], query: Mapping[str, str]) -> None:
        """Refuse a patch by who has read an older state.

        Raises:
            GoogleError: 412.
        """
        del query
        if self._fingerprint and patch and patch.get("fingerprint") not in (None, "", resource.etag):
            raise GoogleError(412, "Invalid fingerprint.", reason="conditionNotMet", belief="compute-stale-is-412")

    def missing(self, name: str) -> GoogleError:
        """Return the error for a missing resource."""
        return GoogleError(404, f"The resource '{name}' was not found", belief="api-missing-is-404")

    def taken(self, name: str) -> GoogleError:
        """Return the error for a name that is taken."""
        return GoogleError(409, f"The resource '{name}' already exists", belief="api-duplicate-is-409")

    def in_use(self, resource: CloudResource, user: str) -> GoogleError:
        """Return the error for a resource that another one uses and that cannot be deleted."""
        kind = self._kind.partition("#")[2]
        message = f"The {kind} resource '{resource.name}' is already being used by '{user}'"
        reason = "resourceInUseByAnotherResource"
        return GoogleError(400, message, reason=reason, belief="compute-in-use-stays")


def begin(resource: CloudResource, verb: str, cloud: Cloud) -> Shown:
    """Begin an operation on a resource and show it."""
    place = resource.name.rsplit("/", 2)[0]
    return shown_operation(cloud.operations.begin(f"{place}/operations", verb, resource.name))


def shown_operation(operation: Operation) -> Shown:
    """Return a compute#operation."""
    place = operation.name.rsplit("/", 2)[0]
    shown: Shown = {
        "kind": "compute#operation",
        "id": str(10**18 + crc32(operation.name.encode())),
        "name": operation.short_name,
        "operationType": operation.verb,
        "targetLink": link(operation.target),
        "selfLink": link(operation.name),
        "status": "DONE" if operation.done else "RUNNING",
        "progress": 100 if operation.done else 0,
        "insertTime": operation.began,
        "startTime": operation.began,
    }
    if "/regions/" in place:
        shown["region"] = link(place)
    return {**shown, "endTime": operation.began} if operation.done else shown
