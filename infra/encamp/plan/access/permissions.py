"""Permissions that bringing up an environment or a job needs in the project, and the role of each.

Those of a resource stand with its kind (``encamp.kinds``). Sources of the others: the page of each role under
cloud.google.com/iam/docs/roles-permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from encamp.kinds.environment import CLUSTER, NETWORK, REPOSITORY, ROUTER, ROUTER_NAT, SUBNETWORK
from encamp.kinds.google import RESOURCE_POLICY, RESOURCES
from encamp.kinds.objects import JOB_SET, OBJECTS
from encamp.plan.declared import declared_resources

if TYPE_CHECKING:
    from encamp.kinds.model import GoogleKind
    from encamp.plan.model import EnvironmentPlan, JobPlan

#: The role of who makes objects in clusters.
_IN_CLUSTER = "roles/container.admin"
#: Permissions by the role that holds them.
_Table = Mapping[str, tuple[str, ...]]

_SERVICES: _Table = {
    "roles/serviceusage.serviceUsageAdmin": ("serviceusage.services.enable", "serviceusage.services.get")
}
_CLUSTER: _Table = {
    "roles/container.admin": (
        # Opens the DNS endpoint (gke-dns-endpoint-permission).
        "container.clusters.connect",
        "container.operations.get",
        "container.namespaces.create",
        "container.customResourceDefinitions.create",
        "container.clusterRoles.create",
        "container.clusterRoleBindings.create",
    )
}
_ARTIFACTS: _Table = {
    "roles/storage.admin": ("storage.buckets.create", "storage.buckets.delete", "storage.buckets.update")
}
#: What is read, written and deleted in the artifacts bucket, and who may.
_OBJECTS: _Table = {
    "roles/storage.admin": (
        "storage.buckets.get",
        "storage.buckets.getIamPolicy",
        "storage.buckets.setIamPolicy",
        "storage.objects.create",
        "storage.objects.list",
        "storage.objects.delete",
    )
}
_REGISTRY: _Table = {"roles/artifactregistry.admin": ("artifactregistry.repositories.setIamPolicy",)}
_ACCOUNTS: _Table = {
    "roles/iam.serviceAccountAdmin": (
        "iam.serviceAccounts.create",
        "iam.serviceAccounts.delete",
        "iam.serviceAccounts.get",
        "iam.serviceAccounts.getIamPolicy",
        "iam.serviceAccounts.setIamPolicy",
    ),
}
_PROJECT_POLICY: _Table = {
    "roles/resourcemanager.projectIamAdmin": (
        "resourcemanager.projects.get",
        "resourcemanager.projects.getIamPolicy",
        "resourcemanager.projects.setIamPolicy",
    ),
}
_ACT_AS: _Table = {"roles/iam.serviceAccountUser": ("iam.serviceAccounts.actAs",)}
_ROLES: _Table = {"roles/iam.roleAdmin": ("iam.roles.create", "iam.roles.delete", "iam.roles.get", "iam.roles.update")}
_KEYS: _Table = {
    "roles/cloudkms.admin": (
        "cloudkms.keyRings.create",
        "cloudkms.keyRings.get",
        "cloudkms.cryptoKeys.create",
        "cloudkms.cryptoKeys.get",
        "cloudkms.cryptoKeys.setIamPolicy",
    )
}
_MONITORING: _Table = {
    "roles/monitoring.editor": (
        "monitoring.notificationChannels.create",
        "monitoring.notificationChannels.delete",
        "monitoring.alertPolicies.create",
        "monitoring.alertPolicies.delete",
        "monitoring.dashboards.create",
        "monitoring.dashboards.delete",
    ),
    "roles/logging.configWriter": ("logging.logMetrics.create", "logging.logMetrics.delete"),
}
_SINKS: _Table = {"roles/logging.configWriter": ("logging.sinks.create", "logging.sinks.delete")}
#: A budget's request counts against the quota of the project (billing-budget-quota-project).
_QUOTA_PROJECT: _Table = {"roles/serviceusage.serviceUsageAdmin": ("serviceusage.services.use",)}
_EXCLUSIONS: _Table = {"roles/logging.configWriter": ("logging.exclusions.create", "logging.exclusions.delete")}
#: Read quotas: the doctor does, the engine does not need them.
QUOTAS: _Table = {"roles/compute.viewer": ("compute.regions.get",)}
#: On the billing account.
BILLING: _Table = {
    "roles/billing.costsManager": ("billing.budgets.create", "billing.budgets.get", "billing.budgets.delete")
}
#: On the key that a stack's secrets are encrypted with.
SECRETS_KEY: _Table = {
    "roles/cloudkms.cryptoKeyEncrypterDecrypter": (
        "cloudkms.cryptoKeyVersions.useToEncrypt",
        "cloudkms.cryptoKeyVersions.useToDecrypt",
    )
}

#: What driving a job takes beside its resources.
_DRIVING: _Table = {
    "roles/container.admin": (
        "container.clusters.get",
        "container.clusters.connect",
        "container.operations.get",
        "container.pods.getLogs",
    ),
    "roles/logging.viewer": ("logging.logEntries.list",),
    "roles/logging.logWriter": ("logging.logEntries.create",),
}


def environment_permissions(plan: EnvironmentPlan) -> Mapping[str, str]:
    """Return the role that holds each permission needed for an environment's resources."""
    tables: list[_Table] = [_SERVICES, _ACCOUNTS, _PROJECT_POLICY, _ACT_AS]
    made: Mapping[str, tuple[_Table, ...]] = {
        "network": (_lives(NETWORK, SUBNETWORK, ROUTER, ROUTER_NAT),),
        "cluster": (_lives(CLUSTER), _CLUSTER),
        "artifactsBucket": (_ARTIFACTS,),
        "registry": (_lives(REPOSITORY), _REGISTRY),
    }
    tables += [_OBJECTS, *(table for what, held in made.items() if what not in plan.adopted for table in held)]
    tables += [
        table
        for block, table in (
            (plan.key, _KEYS),
            (plan.budget, _QUOTA_PROJECT),
            (plan.monitoring, _MONITORING),
            (plan.log_exclusion, _EXCLUSIONS),
            (plan.access, _ROLES),
            (plan.access, _SINKS),
            (plan.reaper, _ROLES),
            (plan.driver, _ROLES),
            (plan.api, _ROLES),
        )
        if block is not None
    ]
    return _joined(tables)


def job_permissions(plan: JobPlan) -> Mapping[str, str]:
    """Return the role that holds each permission needed for a job's resources and for driving it."""
    tokens = {one.type for one in declared_resources(plan)}
    # The trials of a study are JobSets too.
    tokens.add(JOB_SET.token)
    if any(pool.compact for pool in plan.node_pools):
        tokens.add(RESOURCE_POLICY.token)
    objects = [kind for kind in OBJECTS if kind.token in tokens]
    resources = [kind for kind in RESOURCES if kind.token in tokens]
    inside = {_IN_CLUSTER: tuple(f"{kind.permission}.{verb}" for kind in objects for verb in ("create", "delete"))}
    acting = [_ACT_AS] if any(kind.runs_as_account for kind in resources) else []
    return _joined([_DRIVING, _OBJECTS, inside, *map(_lives, resources), *acting])


def roles_of(table: _Table) -> Mapping[str, str]:
    """Return the role of each permission, from a table by roles."""
    return _joined([table])


def _lives(*kinds: GoogleKind) -> _Table:
    """Return what the whole life of resources takes."""
    roles = {kind.role: tuple[str, ...]() for kind in kinds}
    for kind in kinds:
        roles[kind.role] += kind.permissions
    return roles


def _joined(tables: list[_Table]) -> Mapping[str, str]:
    return {permission: role for table in tables for role, permissions in table.items() for permission in permissions}
