"""Whether a bucket can serve a job, asked before anything is made: is it there, is it near, may who must write, write.

Answers come from the bucket, from what the caller is allowed on it, and from IAM policies. A policy names roles, not
permissions: what the storage roles hold stands here, custom roles are read. What cannot be told, because a policy or a
role may not be read or a binding has a condition or a group, is said to be so and never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from encamp.cloud.endpoints import Service
from encamp.cloud.resources import ProjectPolicy
from encamp.cloud.rest import RestError
from encamp.cloud.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.cloud.rest import GoogleClient

#: Locations of several regions: what the regions begin with that lie in them, or their names.
#: Source: cloud.google.com/storage/docs/locations. London and Zurich are not in the EU.
_SEVERAL: Mapping[str, tuple[str, ...]] = {
    "US": ("us-",),
    "EU": ("europe-",),
    "ASIA": ("asia-",),
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}
_NOT_IN_THE_EU = ("europe-west2", "europe-west6")

CREATE = "storage.objects.create"
READ = "storage.objects.get"
LIST = "storage.objects.list"
DELETE = "storage.objects.delete"
SET_POLICY = "storage.buckets.setIamPolicy"

_READER = frozenset({READ, LIST})
_USER = _READER | {CREATE, DELETE}
#: Permissions of each predefined role that a job may need.
#: Source: cloud.google.com/storage/docs/access-control/iam-roles.
_ROLES: Mapping[str, frozenset[str]] = {
    "roles/storage.admin": _USER,
    "roles/storage.objectAdmin": _USER,
    "roles/storage.objectUser": _USER,
    "roles/storage.objectCreator": frozenset({CREATE}),
    "roles/storage.objectViewer": _READER,
    "roles/storage.legacyBucketOwner": frozenset({CREATE, DELETE, LIST}),
    "roles/storage.legacyBucketWriter": frozenset({CREATE, DELETE, LIST}),
    "roles/storage.legacyBucketReader": frozenset({LIST}),
    "roles/storage.legacyObjectOwner": frozenset({READ}),
    "roles/storage.legacyObjectReader": frozenset({READ}),
}
_SILENT = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND})


@dataclass(frozen=True)
class Rights:
    """The permissions of an account on a bucket.

    Attributes:
        given: permissions that it has for sure.
        doubts: why others may be given too, one sentence each; none where ``given`` is all.
    """

    given: frozenset[str]
    doubts: tuple[str, ...]


class Buckets:
    """Buckets as a job needs them; each answer is asked once."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client
        self._storage = Storage(client)
        self._found: dict[str, dict[str, Any] | None] = {}
        self._roles: dict[str, frozenset[str] | None] = {}

    def find(self, bucket: str) -> dict[str, Any] | None:
        """Return a bucket's resource; None if there is none, empty if the caller may not look at it.

        Raises:
            RestError: another refusal, or no answer.
        """
        if bucket not in self._found:
            try:
                self._found[bucket] = self._storage.bucket(bucket)
            except RestError as error:
                if error.status not in _SILENT:
                    raise
                self._found[bucket] = {}
        return self._found[bucket]

    def allowed(self, bucket: str, wanted: tuple[str, ...]) -> frozenset[str]:
        """Return those of the wanted permissions that the caller has."""
        return self._storage.permissions(bucket, wanted)

    def holds(self, bucket: str, name: str) -> bool | None:
        """Whether an object is there; None if the caller may not look."""
        try:
            return self._storage.stat(bucket, name) is not None
        except RestError as error:
            if error.status not in _SILENT:
                raise
            return None

    def rights(self, bucket: str, account: str, project: str) -> Rights:
        """Return the permissions of an account on a bucket, by the bucket's and its project's policies.

        Args:
            bucket: a bucket that exists.
            account: e-mail of a service account.
            project: id of the project whose policy counts where the bucket does not say its own.
        """
        given: set[str] = set()
        doubts: list[str] = []
        number = str((self.find(bucket) or {}).get("projectNumber") or project)
        for where, policy in self._policies(bucket, number):
            if policy is None:
                doubts.append(f"the IAM policy of {where} may not be read")
                continue
            for binding in policy.get("bindings", []):
                known = self._role(str(binding.get("role")))
                doubt = _doubt(binding, account, known)
                if doubt is not None:
                    doubts.append(f"{where}: {doubt}")
                elif known is not None and _names(binding, account):
                    given |= known
        return Rights(frozenset(given), tuple(doubts))

    def _policies(self, bucket: str, project: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
        for where, read in (
            (f"gs://{bucket}", lambda: self._storage.policy(bucket)),
            (f"project {project}", lambda: ProjectPolicy(self._client).read(project)),
        ):
            try:
                yield where, read()
            except RestError as error:
                if error.status not in _SILENT:
                    raise
                yield where, None

    def _role(self, role: str) -> frozenset[str] | None:
        """Return the permissions of a role that a job may need; None if they cannot be read."""
        if role.startswith("roles/"):
            # Basic roles and those of other services give nothing on objects by themselves.
            return _ROLES.get(role, frozenset())
        if role not in self._roles:
            try:
                found = self._client.json(Service.IAM, "GET", f"/v1/{quote(role)}")
                self._roles[role] = frozenset(found.get("includedPermissions", [])) & _USER
            except RestError as error:
                if error.status not in _SILENT:
                    raise
                self._roles[role] = None
        return self._roles[role]


def is_uniform(resource: Mapping[str, Any]) -> bool | None:
    """Whether a bucket has uniform bucket-level access, by its resource; None if that is empty."""
    if not resource:
        return None
    access = resource.get("iamConfiguration") or {}
    return bool((access.get("uniformBucketLevelAccess") or {}).get("enabled"))


def is_near(bucket: Mapping[str, Any], region: str) -> bool:
    """Whether a bucket's location is a region, or several that contain it."""
    location = str(bucket.get("location", "")).upper()
    parts = (bucket.get("customPlacementConfig") or {}).get("dataLocations") or []
    if region.upper() in {location, *(str(part).upper() for part in parts)}:
        return True
    if location == "EU" and region in _NOT_IN_THE_EU:
        return False
    return region.startswith(_SEVERAL.get(location, ("\0",)))


def _names(binding: Mapping[str, Any], account: str) -> bool:
    everybody = {f"serviceAccount:{account}", "allUsers", "allAuthenticatedUsers"}
    return not everybody.isdisjoint(binding.get("members", []))


def _doubt(binding: Mapping[str, Any], account: str, known: frozenset[str] | None) -> str | None:
    """Return why a binding may give the account more than it says plainly; None if it does not."""
    role = binding.get("role")
    if known is not None and not known:
        return None
    if _names(binding, account):
        if binding.get("condition"):
            return f"{role} holds under a condition"
        return None if known is not None else f"the role {role} may not be read"
    groups = [one for one in binding.get("members", []) if one.startswith(("group:", "domain:", "principalSet:"))]
    return f"{role} is given to {groups[0]}, which may contain the account" if groups else None
