"""Access in an environment, decided: custom roles, who has them on which resource, and audit logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.kinds.rights import ClusterRule
    from encamp.spec.ml_roles import Reach


@dataclass(frozen=True)
class CustomRolePlan:
    """A custom role of the project: the part of one of AI Platform's roles that is granted on one resource.

    Attributes:
        key: its logical name, such as ``ml.developer-project``.
        role_id: its id in the project.
        title: for people.
    """

    key: str
    role_id: str
    title: str
    permissions: tuple[str, ...]


@dataclass(frozen=True)
class ConditionPlan:
    """A condition of bindings, in the Common Expression Language."""

    title: str
    expression: str


@dataclass(frozen=True)
class MemberRolePlan:
    """A custom role that a member has.

    Attributes:
        role: the custom role's key.
        reach: where it is given; two of them may be at the same place, under different conditions.
        condition: None if it holds without one.
    """

    role: str
    member: str
    reach: Reach
    condition: ConditionPlan | None


@dataclass(frozen=True)
class SubjectPlan:
    """A member as a subject of Kubernetes RBAC: ``User``, ``Group`` or ``ServiceAccount``, and its name.

    Attributes:
        namespace: of a ``ServiceAccount``, None of others.
    """

    kind: str
    name: str
    namespace: str | None = None


@dataclass(frozen=True)
class ClusterRolePlan:
    """A Role in the namespace of the jobs, and who has it."""

    name: str
    rules: tuple[ClusterRule, ...]
    subjects: tuple[SubjectPlan, ...]


@dataclass(frozen=True)
class AuditSinkPlan:
    """An export of audit logs.

    Attributes:
        bucket: a bucket that is made for them, None if the destination is somebody else's.
        destination: as Cloud Logging names it.
        retention_days: how long the bucket keeps them, None without one.
        protect: whether the engine refuses to delete the bucket.
    """

    name: str
    filter: str
    bucket: str | None
    destination: str
    retention_days: int | None
    protect: bool = True


@dataclass(frozen=True)
class AuditPlan:
    """Audit logs beside those that are always kept.

    Attributes:
        services: what is logged of each service: ``ADMIN_READ``, ``DATA_READ``, ``DATA_WRITE``.
        exempted: members whose calls are not logged.
    """

    services: Mapping[str, tuple[str, ...]]
    exempted: tuple[str, ...]
    sink: AuditSinkPlan | None


@dataclass(frozen=True)
class AccessPlan:
    """Access to an environment.

    Attributes:
        node_account: e-mail of the account that the jobs' machines run as, None if they have none.
        members: the members of each custom role, one by one.
        security_group: the group whose groups the cluster knows.
        cloud_tpu: whether Cloud TPU's service agent gets its role.
    """

    node_account: str | None
    roles: tuple[CustomRolePlan, ...]
    members: tuple[MemberRolePlan, ...]
    cluster_roles: tuple[ClusterRolePlan, ...]
    security_group: str | None = None
    cloud_tpu: bool = False
    audit: AuditPlan | None = None
