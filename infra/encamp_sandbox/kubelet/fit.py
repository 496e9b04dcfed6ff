"""Whether a pod fits a node: the scheduler's filters that matter for node pools, in the scheduler's words.

Node selector, required node affinity, taints, resources, devices. What pods want of others is left to the scheduler.
Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/{nodeaffinity,tainttoleration,noderesources,dynamicresources}.

Belief: autoscaler-looks-in-scheduler-order.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from encamp.cloud import quantity
from encamp_sandbox.kubelet.labels import matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
_CLAIMS = "cannot allocate all claims"


def requests(pod: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return a pod's requests: its containers' sum, or its largest init container's; and one pod's place."""
    total: dict[str, Fraction] = {}
    for container in pod["spec"]["containers"]:
        for name, amount in _amounts(container).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for container in pod["spec"].get("initContainers") or []:
        for name, amount in _amounts(container).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return {**total, "pods": Fraction(1)}


def free(allocatable: Mapping[str, str]) -> dict[str, Fraction]:
    """Return the free resources of a node without pods."""
    return {name: quantity.parse(amount) for name, amount in allocatable.items()}


def take(left: dict[str, Fraction], pod: Mapping[str, Any], devices: Mapping[str, int] | None = None) -> None:
    """Put a pod on a node, and what it claims: less is left of it."""
    for name, amount in [*requests(pod).items(), *(devices or {}).items()]:
        left[name] = left.get(name, Fraction(0)) - amount


def obstacle(
    pod: Mapping[str, Any],
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    left: Mapping[str, Fraction],
    devices: Mapping[str, int] | None = None,
) -> str | None:
    """Return why a pod cannot be on a node of such labels, taints and free resources; None if it can.

    Args:
        pod: the pod.
        labels: of the node.
        taints: of the node.
        left: resources, and devices by class, that nobody uses.
        devices: how many of which class the pod claims.
    """
    if not _selected(pod, labels):
        return NO_MATCH
    tolerations = pod["spec"].get("tolerations") or []
    for taint in taints:
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    missing = [name for name, amount in requests(pod).items() if amount > left.get(name, 0)]
    if missing:
        return "Too many pods" if missing == ["pods"] else f"Insufficient {min(missing, key=_order)}"
    return _CLAIMS if any(count > left.get(name, 0) for name, count in (devices or {}).items()) else None


def _order(name: str) -> tuple[bool, str]:
    return name == "pods", name


def _amounts(container: Mapping[str, Any]) -> dict[str, Fraction]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity.parse(amount) for name, amount in asked.items()}


def _selected(pod: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    spec = pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    terms = required.get("nodeSelectorTerms") or []
    return any(
        all(matches(one, labels) for one in term.get("matchExpressions") or []) and bool(term.get("matchExpressions"))
        for term in terms
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
