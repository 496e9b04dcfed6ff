"""Permissions that bringing up an environment or a job needs in the project, and the role of each.

Sources: the page of each role under cloud.google.com/iam/docs/roles-permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan, JobPlan

#: Permissions by the role that holds them.
_Table = Mapping[str, tuple[str, ...]]

_SERVICES: _Table = {
    "roles/serviceusage.serviceUsageAdmin": ("serviceusage.services.enable", "serviceusage.services.get")
}
_NETWORK: _Table = {
    "roles/compute.networkAdmin": (
        "compute.networks.create",
        "compute.networks.delete",
        "compute.networks.updatePolicy",
        "compute.subnetworks.create",
        "compute.subnetworks.delete",
        "compute.subnetworks.use",
        "compute.routers.create",
        "compute.routers.update",
        "compute.routers.delete",
    )
}
_CLUSTER: _Table = {
    "roles/container.admin": (
        "container.clusters.create",
        "container.clusters.update",
        "container.clusters.delete",
        "container.clusters.get",
        # Opens the DNS endpoint (gke-dns-endpoint-permission).
        "container.clusters.connect",
        "container.operations.get",
        "container.namespaces.create",
        "container.customResourceDefinitions.create",
        "container.clusterRoles.create",
        "container.clusterRoleBindings.create",
    )
}
_BUCKETS: _Table = {
    "roles/storage.admin": ("storage.buckets.create", "storage.buckets.delete", "storage.buckets.update")
}
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
_REGISTRY: _Table = {
    "roles/artifactregistry.admin": (
        "artifactregistry.repositories.create",
        "artifactregistry.repositories.delete",
        "artifactregistry.repositories.get",
        "artifactregistry.repositories.setIamPolicy",
    )
}
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

_JOB: _Table = {
    "roles/container.admin": (
        "container.clusters.get",
        "container.clusters.connect",
        "container.operations.get",
        "container.configMaps.create",
        "container.serviceAccounts.create",
        "container.thirdPartyObjects.create",
        "container.thirdPartyObjects.delete",
        "container.pods.getLogs",
    ),
    "roles/logging.viewer": ("logging.logEntries.list",),
    "roles/logging.logWriter": ("logging.logEntries.create",),
}
_POOLS: _Table = {"roles/container.admin": ("container.clusters.update",)}
_PLACEMENT: _Table = {
    "roles/compute.instanceAdmin.v1": (
        "compute.resourcePolicies.create",
        "compute.resourcePolicies.delete",
        "compute.resourcePolicies.get",
    )
}


def environment_permissions(plan: EnvironmentPlan) -> Mapping[str, str]:
    """Return the role that holds each permission needed for an environment's resources."""
    tables: list[_Table] = [_SERVICES, _ACCOUNTS, _PROJECT_POLICY, _ACT_AS]
    made: Mapping[str, _Table] = {
        "network": _NETWORK,
        "cluster": _CLUSTER,
        "artifactsBucket": _BUCKETS,
        "registry": _REGISTRY,
    }
    tables += [_OBJECTS, *(table for what, table in made.items() if what not in plan.adopted)]
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
    tables: list[_Table] = [_JOB, _OBJECTS]
    if plan.storage.scratch_bucket is not None or plan.storage.results_bucket is not None:
        tables.append(_BUCKETS)
    if plan.own_pools:
        tables += [_POOLS, _ACT_AS]
    if any(grant.bucket is None for grant in plan.identity.grants):
        tables.append(_PROJECT_POLICY)
    if plan.identity.service_account is not None:
        tables.append(_ACCOUNTS)
    if any(pool.workload_policy is not None or pool.compact for pool in plan.node_pools):
        tables.append(_PLACEMENT)
    return _joined(tables)


def roles_of(table: _Table) -> Mapping[str, str]:
    """Return the role of each permission, from a table by roles."""
    return _joined([table])


def _joined(tables: list[_Table]) -> Mapping[str, str]:
    return {permission: role for table in tables for role, permissions in table.items() for permission in permissions}
