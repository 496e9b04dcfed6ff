"""AI Platform's roles and permissions, with the meaning of each permission on today's Google Cloud: a table as data.

A permission stands for abilities, an ability for rights: IAM permissions by resource (:class:`Reach`), and RBAC rules
of Kubernetes in the namespace of the jobs. Rights on what jobs are made of come from ``encamp.kinds``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from encamp.kinds.model import Deed
from encamp.kinds.rights import ClusterRule, cluster_rules, project_rights
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reach(StrEnum):
    """The resources that IAM permissions are granted on, in the table's words."""

    PROJECT = "project"
    JOB_BUCKETS = "jobBuckets"
    ACCOUNTS = "accounts"
    NODES = "nodes"
    JOB_GRANTS = "jobGrants"
    ROLE_GRANTS = "roleGrants"
    ARTIFACTS = "artifacts"
    ARTIFACTS_GRANTS = "artifactsGrants"
    MODELS = "models"


@dataclass(frozen=True)
class Ability:
    """Something that a person can do to jobs: the rights that it takes."""

    name: str
    rights: Mapping[Reach, tuple[str, ...]]
    cluster: tuple[ClusterRule, ...]


@dataclass(frozen=True)
class Permission:
    """A permission of AI Platform, and what it means here in words and in abilities."""

    name: str
    means: str
    abilities: tuple[Ability, ...]


@dataclass(frozen=True)
class MlRoles:
    """The table.

    Attributes:
        roles: permissions of each role, by name.
        permissions: what each means, by name.
        creator: the role that whoever started a job has on it.
    """

    roles: Mapping[str, tuple[str, ...]]
    permissions: Mapping[str, Permission]
    creator: str

    def holding(self, permission: str) -> tuple[str, ...]:
        """Return the roles that hold a permission, in the table's order."""
        return tuple(role for role, held in self.roles.items() if permission in held)

    def abilities_of(self, role: str) -> tuple[Ability, ...]:
        """Return the abilities of a role, each once."""
        every = [ability for name in self.roles[role] for ability in self.permissions[name].abilities]
        return tuple({ability.name: ability for ability in every}.values())


@cache
def ml_roles() -> MlRoles:
    """Return the table of ``spec/data/ml_access.json``. Source of the roles: the job model, section 11."""
    data = data_file("ml_access")
    abilities = {name: _ability(name, found) for name, found in data["abilities"].items()}
    permissions = {
        name: Permission(name, found["means"], tuple(abilities[each] for each in found["abilities"]))
        for name, found in data["permissions"].items()
    }
    return MlRoles({role: tuple(held) for role, held in data["roles"].items()}, permissions, data["creator"])


def _ability(name: str, found: Mapping[str, Any]) -> Ability:
    """Return an ability; ``jobKinds`` names a deed that it allows to every kind of resource that a job may have."""
    rights = {Reach(reach): tuple(held) for reach, held in found.items() if reach in set(Reach)}
    rules = tuple(
        ClusterRule(group, tuple(rule["resources"]), tuple(rule["verbs"]))
        for rule in found.get("cluster", ())
        for group in rule["apiGroups"]
    )
    if "jobKinds" in found:
        deed = Deed(found["jobKinds"])
        wide = tuple(sorted({*rights.get(Reach.PROJECT, ()), *project_rights(deed)}))
        rights = {**rights, Reach.PROJECT: wide} if wide else rights
        rules = (*cluster_rules(deed), *rules)
    return Ability(name, rights, rules)
