"""GKE's own pods on the sandbox's nodes: real objects with real requests, and nothing that runs.

They are static pods of their node (mirror pods, as GKE's kube-proxy is one), so no controller has to make them, nothing
waits for them, and a drain passes them by. They are there before their node is, so that no pod takes their room. A node
that stays for a while reports them as running. Belief: gke-system-pods.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import httpx

from encamp.plan.machines.system_pods import NodeFeature, system_pods
from encamp_sandbox.kubelet.times import now, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from encamp.plan.machines.system_pods import SystemPod
    from encamp_sandbox.kubelet.api import Api

#: Label of every pod that stands for one of GKE's.
STAND_IN = "sandbox.encamp.dev/stand-in"
_SAYS = "asks for what GKE's pod of this name asks for on such a node; the sandbox runs nothing in it"
_IMAGE = "sandbox.encamp.dev/stand-in"
#: The namespace that every cluster has, and all in which GKE has pods.
_FIRST_NAMESPACE = "kube-system"
_NAMESPACES = frozenset(pod.namespace for pod in system_pods(tuple(NodeFeature)))


def is_stand_in(pod: Mapping[str, Any]) -> bool:
    """Whether a pod stands for one of GKE's."""
    return STAND_IN in (pod["metadata"].get("labels") or {})


def pod_name(pod: SystemPod, node: str) -> str:
    """Return the name of a system pod on a node."""
    return f"{pod.name}-{node}"


def pod_object(pod: SystemPod, node: str) -> dict[str, Any]:
    """Return a system pod of a node."""
    mirror = hashlib.sha256(repr(pod).encode()).hexdigest()[:32]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(pod, node),
            "namespace": pod.namespace,
            "labels": {STAND_IN: "true", "k8s-app": pod.name},
            "annotations": {
                STAND_IN: _SAYS,
                "kubernetes.io/config.mirror": mirror,
                "kubernetes.io/config.source": "file",
            },
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": pod.name,
                    "image": _IMAGE,
                    "resources": {"requests": {"cpu": f"{pod.cpu_millis}m", "memory": f"{pod.memory_mib}Mi"}},
                }
            ],
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
        },
    }


class SystemPods:
    """Makes, reports and removes the system pods of nodes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._namespaces = {_FIRST_NAMESPACE}
        self._placed: dict[str, set[str]] = {}

    async def place(self, node: str, pods: Sequence[SystemPod]) -> None:
        """Create the pods of a node, those that are there already left alone. Raises httpx.HTTPError."""
        for namespace in {pod.namespace for pod in pods} - self._namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self._api.create("/api/v1/namespaces", body)
            self._namespaces.add(namespace)
        self._placed.setdefault(node, set()).update(pod.namespace for pod in pods)
        await asyncio.gather(
            *(self._api.create(f"/api/v1/namespaces/{pod.namespace}/pods", pod_object(pod, node)) for pod in pods)
        )

    async def remove(self, node: str) -> None:
        """Delete the pods of a node at once. Raises httpx.HTTPError."""
        query = httpx.QueryParams({"fieldSelector": f"spec.nodeName={node}", "labelSelector": STAND_IN})
        # An earlier kubelet may have placed them.
        for namespace in sorted(self._placed.pop(node, _NAMESPACES)):
            await self._api.delete(f"/api/v1/namespaces/{namespace}/pods?{query}", {"gracePeriodSeconds": 0})

    async def report(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Report pods as running that are not reported yet. Raises httpx.HTTPError."""
        for pod in found:
            if (pod.get("status") or {}).get("phase") != "Running":
                metadata = pod["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
                await self._api.patch(path, {"metadata": {"uid": metadata["uid"]}, "status": _running(pod)})


def _running(pod: Mapping[str, Any]) -> dict[str, Any]:
    moment = stamp(now())
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    (container,) = pod["spec"]["containers"]
    return {
        "phase": "Running",
        "startTime": moment,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "restartCount": 0,
                "ready": True,
                "started": True,
                "state": {"running": {"startedAt": moment}},
            }
        ],
    }
