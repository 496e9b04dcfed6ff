"""The predefined roles that the sandbox knows, as permissions and patterns of permissions.

Sources: cloud.google.com/storage/docs/access-control/iam-roles and cloud.google.com/iam/docs/roles-permissions.
A role that is not here can be bound, like any role that looks like one, and gives nothing in the sandbox.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

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
_CONTAINER_READ = frozenset({"container.clusters.get", "container.clusters.list", "container.operations.*"})
_CONTAINER_ALL = frozenset({"container.clusters.*", "container.operations.*"})
_IAM_READ = frozenset({"iam.serviceAccounts.get", "iam.serviceAccounts.list", "iam.serviceAccounts.getIamPolicy"})
_IAM_ALL = _IAM_READ | {
    "iam.serviceAccounts.create", "iam.serviceAccounts.delete", "iam.serviceAccounts.update",
    "iam.serviceAccounts.disable", "iam.serviceAccounts.enable", "iam.serviceAccounts.setIamPolicy",
}  # fmt: skip
_PROJECT_READ = frozenset({"resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy"})
_PROJECT_ALL = _PROJECT_READ | {"resourcemanager.projects.setIamPolicy"}
_LOGS_READ = frozenset({"logging.logEntries.list", "logging.*.get", "logging.*.list"})
_LOGS_WRITE = frozenset({"logging.logEntries.create"})
#: Services whose objects are neither data nor rights.
_THINGS = ("compute", "container", "monitoring", "artifactregistry", "serviceusage", "cloudquotas", "cloudkms")
_VIEW = (
    frozenset(f"{service}.*.{verb}" for service in _THINGS for verb in ("get", "list"))
    | _IAM_READ | _PROJECT_READ | _LOGS_READ | {"storage.buckets.list", "iam.roles.get", "iam.roles.list"}
)  # fmt: skip
_EDIT = (
    _VIEW | {f"{service}.*.[!s]*" for service in _THINGS}
    | _LOGS_WRITE | {"logging.sinks.*", "logging.logMetrics.*", "iam.serviceAccounts.create"}
    | {"storage.buckets.create", "storage.buckets.delete"}
)  # fmt: skip

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
    "roles/compute.viewer": frozenset({"compute.*.get", "compute.*.list"}),
    "roles/compute.admin": frozenset({"compute.*"}),
    "roles/compute.networkAdmin": frozenset({"compute.networks.*", "compute.subnetworks.*", "compute.routers.*"}),
    "roles/artifactregistry.admin": frozenset({"artifactregistry.*"}),
    "roles/cloudkms.admin": frozenset({"cloudkms.*"}),
    "roles/monitoring.admin": frozenset({"monitoring.*"}),
    "roles/serviceusage.serviceUsageAdmin": frozenset({"serviceusage.*"}),
    "roles/iam.roleAdmin": frozenset({"iam.roles.*"}),
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
    "roles/logging.admin": frozenset({"logging.*"}),
    "roles/resourcemanager.projectIamAdmin": _PROJECT_ALL,
    "roles/browser": frozenset({"resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy"}),
    "roles/viewer": _VIEW,
    "roles/editor": _EDIT,
    "roles/owner": _EDIT | _IAM_ALL | _PROJECT_ALL | {f"{service}.*" for service in _THINGS} | {"iam.roles.*"},
}  # fmt: skip

_ROLE_NAME = re.compile(r"roles/[A-Za-z0-9_.]+|(projects|organizations)/[^/]+/roles/[A-Za-z0-9_.]+")
_BASIC = frozenset({"roles/owner", "roles/editor", "roles/viewer"})


def gives(role: str, permission: str) -> bool:
    """Whether a predefined role has a permission."""
    held = ROLES.get(role, frozenset())
    return permission in held or any(fnmatchcase(permission, one) for one in held if "*" in one)


def role_problem(role: str, resource: str) -> bool:
    """Whether a role cannot be bound on a resource, by its name alone.

    Sources: cloud.google.com/iam/docs/roles-overview (form of names),
    cloud.google.com/storage/docs/access-control/iam-roles (which roles a bucket takes).
    """
    if not _ROLE_NAME.fullmatch(role):
        return True
    if not role.startswith("roles/"):
        return False
    if "/buckets/" in resource:
        return not role.startswith("roles/storage.")
    if "/serviceAccounts/" in resource and role not in _BASIC and not role.startswith("roles/iam."):
        return True
    return role.startswith("roles/storage.legacy")
