"""Changed fields that force a replacement; source: pulumi-kubernetes provider/pkg/provider/diff.go.

Of a custom resource only name and namespace force a replacement: any other immutable field previews as an update that
the API server then refuses. The table leaves out volume types of PersistentVolumes, which encamp never makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.kubernetes.objects import group_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.property_paths import Path
    from encamp_sandbox.provider.values import Value

IDENTITY: Final = (("metadata", "name"), ("metadata", "namespace"))
SELECTOR: Final = (("spec", "selector"),)
POD_MUTABLE: Final = frozenset({"activeDeadlineSeconds", "tolerations", "schedulingGates"})

FIELDS: Final[dict[tuple[str, str], tuple[Path, ...]]] = {
    ("apps", "DaemonSet"): SELECTOR,
    ("apps", "Deployment"): SELECTOR,
    ("apps", "StatefulSet"): (
        *SELECTOR,
        ("spec", "podManagementPolicy"),
        ("spec", "revisionHistoryLimit"),
        ("spec", "serviceName"),
        ("spec", "volumeClaimTemplates"),
    ),
    ("batch", "Job"): (*SELECTOR, ("spec", "completions"), ("spec", "parallelism"), ("spec", "template")),
    ("", "PersistentVolumeClaim"): (
        *SELECTOR,
        ("spec", "accessModes"),
        ("spec", "storageClassName"),
        ("spec", "volumeName"),
    ),
    ("", "ResourceQuota"): (("spec", "scopes"),),
    ("", "Service"): (("spec", "clusterIP"),),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "RoleBinding"): (("roleRef",),),
    ("storage.k8s.io", "StorageClass"): (("parameters",), ("provisioner",)),
}


def forces_replacement(
    obj: Mapping[str, Value], path: Path, *, mutable_config_maps: bool = False, mutable_secrets: bool = False
) -> bool:
    """Whether a change at ``path`` needs a new object.

    Args:
        obj: the new inputs.
        path: a changed field.
        mutable_config_maps: the provider's ``enableConfigMapMutable``.
        mutable_secrets: the provider's ``enableSecretMutable``.
    """
    group, kind = group_of(str(obj.get("apiVersion", ""))), obj.get("kind")
    fixed = obj.get("immutable") is True
    forced = [*IDENTITY, *FIELDS.get((group, str(kind)), ())]
    if (group, kind) == ("", "ConfigMap") and (fixed or not mutable_config_maps):
        forced += [("data",), ("binaryData",)]
    if (group, kind) == ("", "Secret"):
        forced += [("type",)]
        if fixed or not mutable_secrets:
            forced += [("data",), ("stringData",)]
    if (group, kind) == ("", "Pod") and path[0] == "spec" and path[1:2] and path[1] not in POD_MUTABLE:
        return True
    return any(path[: len(prefix)] == prefix or prefix[: len(path)] == path for prefix in forced)
