"""A project: its existence and billing, enabled APIs, the caller's permissions, and quotas."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from encamp.cloud.endpoints import Service
from encamp.cloud.rest import RestError, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.cloud.rest import GoogleClient

#: Largest number of permissions in one request: cloud.google.com/resource-manager/reference/rest/v1/projects.
_MOST_PERMISSIONS = 100
_MEMBERS = "constraints/iam.allowedPolicyMemberDomains"
#: Belief: ``iam-service-account-metric``.
_ACCOUNT_METRIC = "iam.googleapis.com/quota/service-account-count"


@dataclass(frozen=True)
class Quota:
    """A quota: its limit, and how much of it is in use; None if the service does not say."""

    limit: float
    usage: float | None


@dataclass(frozen=True)
class Permitted:
    """The permissions of a caller.

    Attributes:
        given: of the permissions that were asked for.
        unknown: those that the service cannot tell on this resource.
    """

    given: frozenset[str]
    unknown: frozenset[str]


class Projects:
    """Projects as their users may look at them."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client

    def project(self, project: str) -> dict[str, Any]:
        """Return the project itself: ``projectNumber``, ``lifecycleState``."""
        return self._client.json(Service.RESOURCE_MANAGER, "GET", f"/v1/projects/{quote(project)}")

    def pays(self, project: str) -> bool:
        """Whether a billing account stands behind it."""
        found = self._client.json(Service.BILLING, "GET", f"/v1/projects/{quote(project)}/billingInfo")
        return bool(found.get("billingEnabled"))

    def allowed_members(self, project: str) -> frozenset[str]:
        """Read the customers whose members may get roles (domain restricted sharing); empty if anybody's may."""
        path = f"/v1/projects/{quote(project)}:getEffectiveOrgPolicy"
        found = self._client.json(Service.RESOURCE_MANAGER, "POST", path, json={"constraint": _MEMBERS})
        return frozenset((found.get("listPolicy") or {}).get("allowedValues") or ())

    def services(self, project: str) -> frozenset[str]:
        """Return the names of the APIs that are on, such as ``container.googleapis.com``."""
        path = f"/v1/projects/{quote(project)}/services"
        found = self._client.pages(
            Service.SERVICE_USAGE, path, "services", {"filter": "state:ENABLED", "pageSize": "200"}
        )
        return frozenset(str(each["name"]).rpartition("/")[2] for each in found)

    def permitted(self, project: str, permissions: Sequence[str]) -> Permitted:
        """Return the caller's permissions on the project."""
        return self._permitted(Service.RESOURCE_MANAGER, f"projects/{quote(project)}", permissions)

    def permitted_on_key(self, key: str, permissions: Sequence[str]) -> Permitted:
        """Return the caller's permissions on the key ``projects/P/locations/L/keyRings/R/cryptoKeys/K``."""
        return self._permitted(Service.KMS, key, permissions)

    def permitted_on_billing(self, account: str, permissions: Sequence[str]) -> Permitted:
        """Return the caller's permissions on the billing account ``X-Y-Z``."""
        return self._permitted(Service.BILLING, f"billingAccounts/{quote(account)}", permissions)

    def key(self, name: str) -> dict[str, Any] | None:
        """Return the key of that full name, or None."""
        answer = self._client.request(Service.KMS, "GET", f"/v1/{name}", accept=frozenset({HTTPStatus.NOT_FOUND}))
        return None if answer.status_code == HTTPStatus.NOT_FOUND else parsed(answer, name)

    def regional_quotas(self, project: str, region: str) -> dict[str, Quota]:
        """Return quotas of a region by their metric."""
        path = f"/compute/v1/projects/{quote(project)}/regions/{quote(region)}"
        found = self._client.json(Service.COMPUTE, "GET", path)
        return {each["metric"]: Quota(float(each["limit"]), each.get("usage")) for each in found.get("quotas", [])}

    def family_quota(self, project: str, metric: str, region: str, dimension: str, family: str) -> Quota | None:
        """Return a quota of Compute Engine that is divided by families; None if the project has none for this one.

        The Cloud Quotas API tells limits, not what is in use.
        """
        quota = f"{metric.replace('_', '-')}-per-project-region"
        path = f"/v1/projects/{quote(project)}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}"
        answer = self._client.request(Service.QUOTAS, "GET", path, accept=frozenset({HTTPStatus.NOT_FOUND}))
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        matching = [
            found
            for found in parsed(answer, quota).get("dimensionsInfos", [])
            if (found.get("dimensions") or {}).get(dimension, family) == family
            and region in (found.get("applicableLocations") or [region])
        ]
        # A quota of the family and the region goes before a general one.
        matching.sort(key=lambda found: len(found.get("dimensions") or {}))
        return Quota(float(matching[-1]["details"].get("value", 0)), None) if matching else None

    def account_quota(self, project: str) -> Quota | None:
        """Return the quota of service accounts.

        None if the caller may not ask, or the project's list does not have it.
        """
        path = f"/v1/projects/{quote(project)}/locations/global/services/iam.googleapis.com/quotaInfos"
        try:
            listed = list(self._client.pages(Service.QUOTAS, path, "quotaInfos"))
        except RestError as error:
            if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                raise
            return None
        for found in listed:
            if found.get("metric") == _ACCOUNT_METRIC and found.get("dimensionsInfos"):
                return Quota(float(found["dimensionsInfos"][-1]["details"].get("value", 0)), None)
        return None

    def _permitted(self, service: Service, resource: str, permissions: Sequence[str]) -> Permitted:
        given: set[str] = set()
        unknown: set[str] = set()
        asked = sorted(set(permissions))
        for begin in range(0, len(asked), _MOST_PERMISSIONS):
            some = asked[begin : begin + _MOST_PERMISSIONS]
            try:
                given |= self._test(service, resource, some)
            except RestError as error:
                if error.status != HTTPStatus.BAD_REQUEST:
                    raise
                # One of them cannot be asked for on this resource, and the answer does not say which.
                for one in some:
                    try:
                        given |= self._test(service, resource, [one])
                    except RestError:
                        unknown.add(one)
        return Permitted(frozenset(given), frozenset(unknown))

    def _test(self, service: Service, resource: str, permissions: Sequence[str]) -> set[str]:
        body = {"permissions": list(permissions)}
        answer = self._client.json(service, "POST", f"/v1/{resource}:testIamPermissions", json=body)
        return set(answer.get("permissions") or ())
