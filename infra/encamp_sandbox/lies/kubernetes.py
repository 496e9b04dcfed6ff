"""Lies about Kubernetes objects: nodes, pods, events and Kueue's, as the API server answers them."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.lies.model import Lie

if TYPE_CHECKING:
    from collections.abc import Callable

_LATE: Final = timedelta(hours=1)
_SPOT, _GPU_LABEL, _GPU = "cloud.google.com/gke-spot", "cloud.google.com/gke-accelerator", "nvidia.com/gpu"
_PROVISIONING: Final = "cloud.google.com/gke-provisioning"


def _labelled(change: Callable[[dict[str, str]], object]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Change an object's labels."""

    def shown(item: dict[str, Any]) -> dict[str, Any]:
        change(item["metadata"].setdefault("labels", {}))
        return item

    return shown


def _of_pools(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Change a node that belongs to a pool."""

    def shown(item: dict[str, Any]) -> dict[str, Any]:
        change(item)
        return item

    return shown


def _renamed(item: dict[str, Any]) -> dict[str, Any]:
    """Return a node, or its lease, under another name."""
    name = item["metadata"]["name"]
    item["metadata"]["name"] = f"node-{name}"
    provider = item["spec"].get("providerID")
    if provider:
        item["spec"]["providerID"] = f"{provider.rpartition('/')[0]}/node-{name}"
    return item


def _tainted_spot(node: dict[str, Any]) -> None:
    # By the label that the other lies leave alone.
    if node["metadata"]["labels"].get(_PROVISIONING) == "spot":
        node["spec"].setdefault("taints", []).append({"key": _SPOT, "value": "true", "effect": "NoSchedule"})


def _on_demand(labels: dict[str, str]) -> None:
    # Not those of Spot, which the lie about taints knows by this label.
    if labels.get(_PROVISIONING) == "standard":
        labels[_PROVISIONING] = "ON_DEMAND"


def _without_gpu_taint(node: dict[str, Any]) -> None:
    node["spec"]["taints"] = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != _GPU]


def _more_gpus(node: dict[str, Any]) -> None:
    if _GPU in node["status"].get("allocatable", {}):
        node["status"]["allocatable"][_GPU] = "8"


def _one_more(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a machine more than there is, alike the last one."""
    if not nodes:
        return nodes
    more = copy.deepcopy(nodes[-1])
    more["metadata"]["uid"] = f"{more['metadata'].get('uid')}-more"
    more["metadata"]["name"] += "x"
    more["spec"]["providerID"] = f"{more['spec'].get('providerID')}x"
    return [*nodes, more]


def _twice(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    more = [copy.deepcopy(item) for item in items]
    for item in more:
        item["metadata"]["uid"] = f"{item['metadata']['uid']}-more"
    return [*items, *more]


def _earlier(item: dict[str, Any]) -> None:
    made = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
    item["metadata"]["creationTimestamp"] = (made - _LATE).strftime("%Y-%m-%dT%H:%M:%SZ")


def _late_schedule(pod: dict[str, Any]) -> dict[str, Any]:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            condition["lastTransitionTime"] = _later(condition["lastTransitionTime"])
    return pod


def _late_start(pod: dict[str, Any]) -> dict[str, Any]:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        for state in (status.get("state") or {}).values():
            if state.get("startedAt"):
                state["startedAt"] = _later(_later(state["startedAt"]))
    return pod


def _later(text: str) -> str:
    return (datetime.fromisoformat(text) + _LATE).strftime("%Y-%m-%dT%H:%M:%SZ")


def _other_words(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("reason") == "TriggeredScaleUp":
        event["message"] = "a machine comes"
    return event


def _no_reason(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("reason") == "NotTriggerScaleUp":
        event["message"] = "no"
    return event


def _short_lease(lease: dict[str, Any]) -> dict[str, Any]:
    lease["spec"]["leaseDurationSeconds"] = 5
    return lease


def _early_gpu_node(node: dict[str, Any]) -> None:
    if _GPU_LABEL in node["metadata"]["labels"]:
        _earlier(node)


def _never_suspended(job_set: dict[str, Any]) -> dict[str, Any]:
    job_set["spec"]["suspend"] = False
    status = job_set.get("status") or {}
    status["conditions"] = [one for one in status.get("conditions") or [] if one["type"] != "Suspended"]
    return {**job_set, "status": status}


def _node(belief: str, does: str, change: Callable[[dict[str, Any]], object]) -> Lie:
    return Lie(belief, does, objects="nodes", shows=_of_pools(change))


def _label(belief: str, does: str, change: Callable[[dict[str, str]], object]) -> Lie:
    return Lie(belief, does, objects="nodes", shows=_labelled(change))


def _more_cpu(node: dict[str, Any]) -> None:
    offered = node["status"]["allocatable"]
    offered["cpu"] = f"{_millis(offered['cpu']) + 100}m"


def _millis(quantity: str) -> int:
    return int(quantity.removesuffix("m")) if quantity.endswith("m") else int(quantity) * 1000


def _hungry(pod: dict[str, Any]) -> dict[str, Any]:
    if pod["metadata"].get("namespace") == "kube-system":
        for container in pod["spec"]["containers"]:
            container["resources"] = {"requests": {"cpu": "1", "memory": "64Mi"}}
    return pod


def _only_ready(node: dict[str, Any]) -> None:
    status = node["status"]
    status["conditions"] = [one for one in status.get("conditions") or () if one["type"] == "Ready"]


LIES: Final = (
    _node("gke-node-allocatable", "Nodes offer a tenth of a CPU more.", _more_cpu),
    _label(
        "node-has-its-pools-label",
        "The label of a node names another pool.",
        lambda labels: labels.update({"cloud.google.com/gke-nodepool": "another"}),
    ),
    Lie("node-name-begins-with-gke", "Names of nodes begin with node-.", objects="nodes leases", shows=_renamed),
    _node(
        "node-provider-id",
        "Nodes have the ids of another provider.",
        lambda node: node["spec"].update(providerID="aws://x"),
    ),
    _label(
        "node-labels-of-its-machine",
        "The label of the machine type is that of another one.",
        lambda labels: labels.update({"node.kubernetes.io/instance-type": "n2-standard-2"}),
    ),
    _label(
        "node-label-of-metadata-server",
        "Nodes lack the label of the metadata server.",
        lambda labels: labels.pop("iam.gke.io/gke-metadata-server-enabled", None),
    ),
    _label("node-label-of-spot", "Spot nodes are called preemptible.", lambda labels: labels.pop(_SPOT, None)),
    _node("node-spot-has-no-taint", "Spot nodes are tainted.", _tainted_spot),
    _label(
        "node-label-of-provisioning",
        "Nodes on demand say ON_DEMAND.",
        _on_demand,
    ),
    _label("node-labels-of-gpus", "GPU nodes say l4.", lambda labels: labels.update({_GPU_LABEL: "l4"})),
    _node("node-taint-of-gpus", "GPU nodes are not tainted.", _without_gpu_taint),
    _node("node-offers-gpus", "Nodes offer eight GPUs.", _more_gpus),
    Lie("node-lease-is-renewed", "Leases of nodes last five seconds.", objects="leases", shows=_short_lease),
    Lie("autoscaler-says-not-triggered", "The autoscaler says nothing helpful.", objects="events", shows=_no_reason),
    Lie("gke-system-pods", "Each pod of GKE's own asks for a whole CPU.", objects="pods", shows=_hungry),
    _node("node-conditions", "Nodes post that they are ready, and nothing else.", _only_ready),
    _node("autoscaler-grows-from-zero", "Nodes were there before the pods.", _earlier),
    Lie("autoscaler-adds-one-node-per-pod", "A machine too many comes.", objects="nodes", lists=_one_more),
    Lie("autoscaler-says-triggered", "The autoscaler says it otherwise.", objects="events", shows=_other_words),
    Lie("time-machine-from-zero", "Pods wait an hour longer.", objects="pods", shows=_late_schedule),
    Lie("time-image-pull", "Containers start two hours later.", objects="pods", shows=_late_start),
    _node("time-gpu-driver", "GPU nodes are an hour older.", _early_gpu_node),
    Lie("kueue-workload-of-a-job-set", "A JobSet has two Workloads.", objects="workloads", lists=_twice),
    Lie(
        "kueue-suspends-until-admitted",
        "JobSets run before they are admitted.",
        objects="jobsets",
        shows=_never_suspended,
    ),
)
