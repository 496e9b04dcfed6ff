"""Admission of pods in the namespace of jobs.

Kubernetes' profile "baseline" enforces itself by a label. Replicas on TPUs need one thing beyond it: the capability
SYS_RESOURCE, by which a process raises its limit of locked memory (belief: tpu-locked-memory). Where an environment
allows that, the label can no longer enforce anything, and an admission policy says the rules of "baseline" instead,
with that one exception for containers that ask for TPU chips. Source of the rules:
kubernetes.io/docs/concepts/security/pod-security-standards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.machines.allocatable import TPU_RESOURCE
from encamp.plan.manifests.pod_security import LOCKED_MEMORY_CAPABILITY

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENFORCE = "pod-security.kubernetes.io/enforce"
_AUDIT = {"pod-security.kubernetes.io/audit": "restricted"}
_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
_SE_LINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
)  # fmt: skip
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
#: Fields of a container by which the kubelet speaks to an address.
_HANDLERS = tuple(
    f"?{handler}.?{kind}"
    for handler in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop")
    for kind in ("httpGet", "tcpSocket")
)


def namespace_labels(*, locked_memory: bool) -> Mapping[str, str]:
    """Return labels by which the API server judges the pods of jobs.

    With ``locked_memory`` the admission policy does.
    """
    return {_ENFORCE: "privileged" if locked_memory else "baseline", **_AUDIT}


def admission_policy(name: str, namespace: str, labels: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the admission policy of a namespace of jobs, and what puts it into force.

    Args:
        name: of both objects.
        namespace: the namespace of the pods that it judges.
        labels: of both objects.
    """
    metadata = {"name": name, "labels": dict(labels)}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["pods", "pods/ephemeralcontainers"],
                    }
                ],
            },
            "variables": [{"name": each, "expression": expression} for each, expression in _VARIABLES.items()],
            "validations": [{"expression": text, "message": said} for said, text in _RULES.items()],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


def _listed(values: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(value) for value in values)}]"


_VARIABLES = {
    "containers": "object.spec.containers + object.spec.?initContainers.orValue([])"
    " + object.spec.?ephemeralContainers.orValue([])",
    "contexts": "[object.spec.?securityContext.orValue({})]"
    " + variables.containers.map(c, c.?securityContext.orValue({}))",
}
#: Messages for pods that break a rule, and the rule in the API server's expression language (CEL).
_RULES = {
    "a pod of jobs uses no namespace of its host": " && ".join(
        f"!object.spec.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")
    ),
    "a container of jobs is not privileged": "variables.containers.all(c,"
    " !c.?securityContext.?privileged.orValue(false))",
    "a container of jobs adds no capability beyond baseline; with TPU chips it may add SYS_RESOURCE": (
        "variables.containers.all(c, c.?securityContext.?capabilities.?add.orValue([]).all(each,"
        f" each in {_listed(_CAPABILITIES)} || (each == '{LOCKED_MEMORY_CAPABILITY}'"
        f" && '{TPU_RESOURCE}' in c.?resources.?limits.orValue({{}}))))"
    ),
    "a pod of jobs mounts no folder of its host": "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))",
    "a container of jobs takes no port of its host": "variables.containers.all(c,"
    " c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
    "probes and hooks of jobs name no host": "variables.containers.all(c, "
    + " && ".join(f"c.{handler}.?host.orValue('') == ''" for handler in _HANDLERS)
    + ")",
    "a pod of jobs is no process of its host": "variables.contexts.all(s,"
    " !s.?windowsOptions.?hostProcess.orValue(false))",
    "a pod of jobs keeps its AppArmor profile": (
        "variables.contexts.all(s, s.?appArmorProfile.?type.orValue('RuntimeDefault') in ['RuntimeDefault',"
        " 'Localhost']) && object.metadata.?annotations.orValue({}).all(key,"
        f" !key.startsWith('{_APP_ARMOR}') || object.metadata.annotations[key] in ['', 'runtime/default']"
        " || object.metadata.annotations[key].startsWith('localhost/'))"
    ),
    "a pod of jobs keeps its SELinux label": (
        f"variables.contexts.all(s, s.?seLinuxOptions.?type.orValue('') in {_listed(_SE_LINUX_TYPES)}"
        " && s.?seLinuxOptions.?user.orValue('') == '' && s.?seLinuxOptions.?role.orValue('') == '')"
    ),
    "a container of jobs has /proc as usual": "variables.containers.all(c,"
    " c.?securityContext.?procMount.orValue('Default') == 'Default')",
    "a pod of jobs keeps its seccomp profile": "variables.contexts.all(s,"
    " s.?seccompProfile.?type.orValue('RuntimeDefault') != 'Unconfined')",
    "a pod of jobs sets safe sysctls only": "object.spec.?securityContext.?sysctls.orValue([]).all(each,"
    f" each.name in {_listed(_SYSCTLS)})",
}
