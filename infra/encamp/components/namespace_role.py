"""A Role of one namespace and who has it, as plain manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.components.kubernetes_object import KubernetesObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pulumi

    from encamp.kinds.rights import ClusterRule

_GROUP = "rbac.authorization.k8s.io"
_VERSION = f"{_GROUP}/v1"


@dataclass(frozen=True)
class RoleHolder:
    """Somebody who has a role.

    Attributes:
        kind: ``User``, ``Group`` or ``ServiceAccount``.
        namespace: of a ServiceAccount, None for others.
    """

    kind: str
    name: pulumi.Input[str]
    namespace: str | None = None

    def subject(self) -> dict[str, Any]:
        """Return it as a RoleBinding names it."""
        if self.namespace is not None:
            return {"kind": self.kind, "name": self.name, "namespace": self.namespace}
        return {"apiGroup": _GROUP, "kind": self.kind, "name": self.name}


def give_role(
    name: str,
    metadata: Mapping[str, Any],
    rules: Iterable[ClusterRule],
    holders: Iterable[RoleHolder],
    opts: pulumi.ResourceOptions,
) -> None:
    """Declare a Role and its RoleBinding, both with this metadata and by this logical name."""
    allowed = [
        {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)} for rule in rules
    ]
    role = KubernetesObject(
        name, {"apiVersion": _VERSION, "kind": "Role", "metadata": dict(metadata), "rules": allowed}, opts
    )
    binding = {
        "apiVersion": _VERSION,
        "kind": "RoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": role.called},
        "subjects": [holder.subject() for holder in holders],
    }
    KubernetesObject(name, binding, opts)
