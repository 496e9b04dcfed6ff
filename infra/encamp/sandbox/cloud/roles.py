"""The predefined roles that the sandbox knows, as the permissions among those it checks.

Sources: cloud.google.com/storage/docs/access-control/iam-roles and cloud.google.com/iam/docs/roles-permissions.
A role that is not here can be bound, like any role that looks like one, and gives nothing in the sandbox.
"""

from __future__ import annotations

import re
from typing import Final

from encamp.sandbox.cloud.refusals import ODD_ROLE

_OBJECT_READ = frozenset({"storage.objects.get", "storage.objects.list"})
_OBJECT_ALL = _OBJECT_READ | {
    "storage.objects.create", "storage.objects.delete", "storage.objects.update", "storage.objects.move",
}  # fmt: skip
_OBJECT_POLICY = frozenset({"storage.objects.getIamPolicy", "storage.objects.setIamPolicy"})
_BUCKET_READ = frozenset({"storage.buckets.get"})
_BUCKET_ALL = _BUCKET_READ | {
    "storage.buckets.list", "storage.buckets.create", "storage.buckets.delete", "storage.buckets.update",
    "storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy",
}  # fmt: skip
_CONTAINER_READ = frozenset({"container.clusters.get", "container.clusters.list", "container.operations.get"})
_CONTAINER_ALL = _CONTAINER_READ | {"container.clusters.update", "container.clusters.delete"}
_IAM_READ = frozenset({"iam.serviceAccounts.get", "iam.serviceAccounts.list", "iam.serviceAccounts.getIamPolicy"})
_IAM_ALL = _IAM_READ | {"iam.serviceAccounts.delete", "iam.serviceAccounts.setIamPolicy"}
_PROJECT_READ = frozenset({"resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy"})
_PROJECT_ALL = _PROJECT_READ | {"resourcemanager.projects.setIamPolicy"}
_COMPUTE_READ = frozenset({"compute.resourcePolicies.get", "compute.resourcePolicies.list"})
_COMPUTE_ALL = _COMPUTE_READ | {"compute.resourcePolicies.delete"}
_LOGS_READ = frozenset({"logging.logEntries.list"})
_LOGS_WRITE = frozenset({"logging.logEntries.create"})
_ABOUT = frozenset({"serviceusage.services.list", "cloudquotas.quotas.get", "compute.regions.get"})
_VIEW = _ABOUT | _COMPUTE_READ | _CONTAINER_READ | _IAM_READ | _PROJECT_READ | _LOGS_READ | {"storage.buckets.list"}

ROLES: Final[dict[str, frozenset[str]]] = {
    "roles/storage.objectViewer": _OBJECT_READ,
    "roles/storage.objectCreator": frozenset({"storage.objects.create"}),
    "roles/storage.objectUser": _OBJECT_ALL,
    "roles/storage.objectAdmin": _OBJECT_ALL | _OBJECT_POLICY,
    "roles/storage.admin": _OBJECT_ALL | _OBJECT_POLICY | _BUCKET_ALL,
    "roles/storage.bucketViewer": frozenset({"storage.buckets.get", "storage.buckets.list"}),
    "roles/storage.legacyObjectReader": frozenset({"storage.objects.get"}),
    "roles/storage.legacyObjectOwner": frozenset({"storage.objects.get", "storage.objects.update"}) | _OBJECT_POLICY,
    "roles/storage.legacyBucketReader": _BUCKET_READ | {"storage.objects.list"},
    "roles/storage.legacyBucketWriter": _BUCKET_READ
    | {"storage.objects.list", "storage.objects.create", "storage.objects.delete"},
    "roles/storage.legacyBucketOwner": _BUCKET_READ
    | {"storage.objects.list", "storage.objects.create", "storage.objects.delete", "storage.buckets.update"}
    | {"storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"},
    "roles/compute.viewer": _COMPUTE_READ,
    "roles/compute.admin": _COMPUTE_ALL,
    "roles/container.viewer": _CONTAINER_READ,
    "roles/container.clusterViewer": _CONTAINER_READ,
    "roles/container.developer": _CONTAINER_READ,
    "roles/container.admin": _CONTAINER_ALL,
    "roles/container.clusterAdmin": _CONTAINER_ALL,
    "roles/iam.serviceAccountAdmin": _IAM_ALL,
    "roles/iam.serviceAccountViewer": _IAM_READ,
    "roles/iam.serviceAccountTokenCreator": frozenset({"iam.serviceAccounts.getAccessToken"}),
    "roles/iam.workloadIdentityUser": frozenset({"iam.serviceAccounts.getAccessToken"}),
    "roles/logging.logWriter": _LOGS_WRITE,
    "roles/logging.viewer": _LOGS_READ,
    "roles/logging.admin": _LOGS_READ | _LOGS_WRITE,
    "roles/resourcemanager.projectIamAdmin": _PROJECT_ALL,
    "roles/browser": frozenset({"resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy"}),
    "roles/viewer": _VIEW,
    "roles/editor": _VIEW | _COMPUTE_ALL | _CONTAINER_ALL | _LOGS_WRITE
    | {"storage.buckets.create", "storage.buckets.delete"},
    "roles/owner": _VIEW | _COMPUTE_ALL | _CONTAINER_ALL | _LOGS_WRITE | _IAM_ALL | _PROJECT_ALL
    | {"storage.buckets.create", "storage.buckets.delete"},
}  # fmt: skip

_ROLE_NAME = re.compile(r"roles/[A-Za-z0-9_.]+|(projects|organizations)/[^/]+/roles/[A-Za-z0-9_.]+")
_BASIC = frozenset({"roles/owner", "roles/editor", "roles/viewer"})


def role_problem(role: str, resource: str) -> str | None:
    """Why a role cannot be bound on a resource, as Google says it; None if it can.

    Sources: cloud.google.com/iam/docs/roles-overview (form of names),
    cloud.google.com/storage/docs/access-control/iam-roles (which roles a bucket takes).
    """
    if not _ROLE_NAME.fullmatch(role):
        return ODD_ROLE.text.format(role=role)
    if not role.startswith("roles/"):
        return None
    if "/buckets/" in resource and not role.startswith("roles/storage."):
        return ODD_ROLE.text.format(role=role)
    if "/serviceAccounts/" in resource and role not in _BASIC and not role.startswith("roles/iam."):
        return ODD_ROLE.text.format(role=role)
    legacy = role.startswith(("roles/storage.legacy",))
    if legacy and "/buckets/" not in resource:
        return ODD_ROLE.text.format(role=role)
    return None
