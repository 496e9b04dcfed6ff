"""The admission policy of a namespace of jobs, by the real API server: "baseline" with one exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.environment.pod_admission import admission_policy, namespace_labels

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sandbox

TPU = {"limits": {"google.com/tpu": 4}}
LOCKING = {"capabilities": {"add": ["SYS_RESOURCE"]}}
PROBED = {"httpGet": {"host": "192.0.2.1", "port": 80}}
#: Pods that Kubernetes' profile judges, and the policy the same: fields of the pod, fields of its container.
PODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "with chips": ({}, {"resources": TPU}),
    "kept capability": ({}, {"securityContext": {"capabilities": {"add": ["CHOWN"], "drop": ["NET_RAW"]}}}),
    "own capability": ({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    "own capability with chips": ({}, {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}, "resources": TPU}),
    "locked memory without chips": ({}, {"securityContext": LOCKING}),
    "privileged": ({}, {"securityContext": {"privileged": True}}),
    "host network": ({"hostNetwork": True}, {}),
    "host processes": ({"hostPID": True}, {}),
    "host memory": ({"hostIPC": True}, {}),
    "folder of the host": ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}),
    "empty folder": ({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}, {}),
    "port of the host": ({}, {"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "port": ({}, {"ports": [{"containerPort": 80}]}),
    "probe of another host": ({}, {"readinessProbe": PROBED}),
    "hook to another host": ({}, {"lifecycle": {"preStop": PROBED}}),
    "unconfined by AppArmor": ({}, {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
    "its own AppArmor": ({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, {}),
    "SELinux user": ({"securityContext": {"seLinuxOptions": {"user": "root"}}}, {}),
    "SELinux type": ({}, {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}),
    "SELinux of containers": ({}, {"securityContext": {"seLinuxOptions": {"type": "container_t"}}}),
    "unconfined by seccomp": ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {}),
    "its own seccomp": ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, {}),
    "unsafe sysctl": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {}),
    "safe sysctl": ({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}}, {}),
}


def verdict(cluster: Any, namespace: str, pod: dict[str, Any]) -> str:
    """What the API server says of a pod, empty where it takes it; nothing is made."""
    answer = cluster.api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", json=pod)
    return "" if answer.is_success else str(answer.json()["message"])


def pod_of(spec: dict[str, Any], container: dict[str, Any], *, as_init: bool = False) -> dict[str, Any]:
    main = {"name": "main", "image": "trainer"}
    containers = {"initContainers": [{"name": "first", "image": "i", **container}]} if as_init else {}
    return {
        "metadata": {"name": "judged"},
        "spec": {"containers": [main if as_init else {**main, **container}], **containers, **spec},
    }


@pytest.fixture(scope="module")
def namespaces(cluster: Any) -> tuple[str, str]:
    """One namespace that Kubernetes' profile judges, and one that the policy does."""
    for name, locked_memory in (("judged-by-label", False), ("judged-by-policy", True)):
        labels = dict(namespace_labels(locked_memory=locked_memory))
        cluster.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        account = {"metadata": {"name": "default"}}
        answer = cluster.api.post(f"/api/v1/namespaces/{name}/serviceaccounts", json=account)
        assert answer.is_success or answer.status_code == 409
    group = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = admission_policy("pods-of-jobs", "judged-by-policy", {"encamp-owner": "tests"})
    cluster.create(f"{group}/validatingadmissionpolicies", policy)
    cluster.create(f"{group}/validatingadmissionpolicybindings", binding)
    return "judged-by-label", "judged-by-policy"


@pytest.fixture(autouse=True)
def in_force(cluster: Any, namespaces: tuple[str, str], until: Callable[..., None]) -> None:
    """The API server heeds a policy a moment after it was made."""
    until(lambda: verdict(cluster, namespaces[1], pod_of({"hostNetwork": True}, {})), 20)


#: An init container has no probes and hooks.
OF_INIT_CONTAINERS = [
    name for name, (_, container) in PODS.items() if not {"readinessProbe", "lifecycle"} & container.keys()
]


@pytest.mark.parametrize(
    ("name", "as_init"), [*((name, False) for name in PODS), *((name, True) for name in OF_INIT_CONTAINERS)]
)
def test_the_policy_judges_as_kubernetes_own_profile_does(
    cluster: Any, namespaces: tuple[str, str], name: str, *, as_init: bool
) -> None:
    pod = pod_of(*PODS[name], as_init=as_init)
    by_label, by_policy = (verdict(cluster, namespace, pod) for namespace in namespaces)
    assert bool(by_label) == bool(by_policy), (by_label, by_policy)
    if by_policy:
        assert "of jobs" in by_policy


def test_a_replica_with_chips_may_raise_its_locked_memory_by_the_policy_alone(
    cluster: Any, namespaces: tuple[str, str]
) -> None:
    pod = pod_of({}, {"securityContext": LOCKING, "resources": TPU})
    by_label, by_policy = (verdict(cluster, namespace, pod) for namespace in namespaces)
    assert "non-default capabilities" in by_label
    assert by_policy == ""


def test_the_policy_explains_what_is_wrong(cluster: Any, namespaces: tuple[str, str]) -> None:
    said = verdict(cluster, namespaces[1], pod_of({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}))
    assert "with TPU chips it may add SYS_RESOURCE" in said
