"""Security contexts of replicas: as few rights as the image allows.

Kubernetes' profile "restricted" (kubernetes.io/docs/concepts/security/pod-security-standards) where a replica is nobody
in particular; its profile "baseline" where the image's user, often root, is needed. Beliefs: tpu-locked-memory,
rdma-without-root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.spec.encamp import RunAs

if TYPE_CHECKING:
    from collections.abc import Mapping

#: User and group of replicas that run as nobody in particular; no image's own user has this number.
NON_ROOT_ID = 65_532
#: Capability that a process needs to raise its own limit of locked memory.
LOCKED_MEMORY_CAPABILITY = "SYS_RESOURCE"
#: Bytes that GKE's page of TPUs raises that limit to.
LOCKED_MEMORY_BYTES = 68_719_476_736
#: Capabilities that root of a container has by default and no trainer needs: Kubernetes' baseline allows all of these.
_NEVER_NEEDED = ("AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SYS_CHROOT")


def is_non_root(wanted: RunAs | None, *, custom_container: bool, has_tpu: bool) -> bool:
    """Whether a replica runs as a user without rights.

    Without the job's word: where the image is a framework's own, which needs no rights. An image of the user's may need
    its own user, and whether a TPU's device files may be opened by others than root is not documented.
    """
    if wanted is not None:
        return wanted is RunAs.NON_ROOT
    return not custom_container and not has_tpu


def pod_security(*, non_root: bool) -> Mapping[str, Any]:
    """Return the security context of a pod.

    Its volumes belong to the group, so that everything of it may write there.
    """
    seccomp = {"type": "RuntimeDefault"}
    if not non_root:
        return {"seccompProfile": seccomp}
    user = {"runAsNonRoot": True, "runAsUser": NON_ROOT_ID, "runAsGroup": NON_ROOT_ID, "fsGroup": NON_ROOT_ID}
    return {**user, "seccompProfile": seccomp}


def container_security(*, non_root: bool, locked_memory: bool = False) -> Mapping[str, Any]:
    """Return the security context of a container; with ``locked_memory`` it may raise its limit of locked memory."""
    capabilities = {"drop": ["ALL"] if non_root else list(_NEVER_NEEDED)}
    if locked_memory:
        capabilities["add"] = [LOCKED_MEMORY_CAPABILITY]
    return {"allowPrivilegeEscalation": False, "capabilities": capabilities}


def init_security() -> Mapping[str, Any]:
    """Return the security context of an init container that copies files of its image.

    Root, whose the image's files are.
    """
    return {"runAsUser": 0, "runAsNonRoot": False, **container_security(non_root=False)}


def home_variables(folder: str) -> Mapping[str, str]:
    """Return variables that give a user unknown to the image's ``/etc/passwd`` a home and a name.

    Libraries ask for a home to keep caches in, and for a name to call files after; without a name they fail.
    """
    return {"HOME": folder, "LOGNAME": "trainer", "USER": "trainer"}
