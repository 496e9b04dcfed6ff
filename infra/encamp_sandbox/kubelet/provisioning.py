"""ProvisioningRequests: machines that are asked for all at once, before the pods that need them may run.

What GKE's autoscaler does of the class ``queued-provisioning.gke.io``: a request is accepted, and provisioned when one
queued pool takes all of its pods. Nodes carry the name of the request that they came for, which its pods select: so
several requests can share a pool. They end after the time that it says.
Conditions and their words: k8s.io/autoscaler/cluster-autoscaler/provisioningrequest.

Beliefs: autoscaler-provisioning-request-conditions, autoscaler-queued-pools-wait-for-requests,
gke-nodes-of-a-resize-request.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from encamp_sandbox.kubelet import fit
from encamp_sandbox.kubelet.times import now, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp_sandbox.kubelet.pools import Pool

CLASS = "queued-provisioning.gke.io"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1beta1/provisioningrequests"
ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
#: Label of nodes: the request of Compute Engine's that they came by.
RESIZE_LABEL = "autoscaling.gke.io/provisioning-request"
#: Annotation of nodes: after how many seconds their request ends them.
LONGEST_ANNOTATION = "sandbox.encamp.dev/max-run-seconds"
_LONGEST_NAME = 63


@dataclass(frozen=True)
class NodeMarks:
    """Labels and annotations of nodes beside their pool's own, by the request that they came for."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def marks(request: Mapping[str, Any]) -> NodeMarks:
    """Return the marks of nodes that come for a request."""
    seconds = (request["spec"].get("parameters") or {}).get("maxRunDurationSeconds")
    return NodeMarks({RESIZE_LABEL: _resize_name(request)}, {LONGEST_ANNOTATION: str(seconds)} if seconds else {})


def longest(node: Mapping[str, Any], of_pool: timedelta | None) -> timedelta | None:
    """Return the longest life of a machine: its pool's limit, or the shorter one of its request."""
    said = (node["metadata"].get("annotations") or {}).get(LONGEST_ANNOTATION, "")
    limits = [
        limit for limit in (of_pool, timedelta(seconds=int(said)) if said.isdigit() else None) if limit is not None
    ]
    return min(limits, default=None)


def _resize_name(request: Mapping[str, Any]) -> str:
    metadata = request["metadata"]
    digest = hashlib.sha256(str(metadata.get("uid", "")).encode()).hexdigest()[:16]
    readable = f"gke-{metadata['namespace']}-{metadata['name']}"[: _LONGEST_NAME - len(digest) - 1].rstrip("-")
    return f"{readable}-{digest}"


def path(namespace: str, name: str) -> str:
    """Return the path of one request in the API."""
    group, _, kind = REQUESTS.rpartition("/")
    return f"{group}/namespaces/{namespace}/{kind}/{name}"


def says_new(request: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether a status says of a request what it does not say yet."""

    def said(conditions: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
        return [(one["type"], one["status"], one["message"]) for one in conditions]

    return said((request.get("status") or {}).get("conditions") or []) != said(status["conditions"])


def is_open(request: Mapping[str, Any]) -> bool:
    """Whether a request of our class still waits for its machines."""
    if request["spec"].get("provisioningClassName") != CLASS:
        return False
    said = {one["type"]: one["status"] for one in (request.get("status") or {}).get("conditions") or []}
    return said.get("Provisioned") != "True" and said.get("Failed") != "True"


def place(
    template: Mapping[str, Any], count: int, pools: Sequence[Pool], sizes: Mapping[str, int]
) -> tuple[Pool | None, str]:
    """Return the queued pool that takes so many pods of a template, each on a node of its own; or why none does."""
    pod = {"metadata": template.get("metadata") or {}, "spec": template["spec"]}
    reasons: list[str] = []
    for pool in pools:
        if not pool.queued:
            continue
        room = pool.maximum - sizes.get(pool.full_name, 0)
        reason = fit.obstacle(pod, pool.labels, pool.taints, pool.free())
        if reason is None and room >= count:
            return pool, ""
        reasons.append(f"{pool.name}: {reason or f'room for {room} of {count} nodes'}")
    return None, "; ".join(reasons) or "no node pool has queued provisioning"


def status(request: Mapping[str, Any], pool: Pool | None, reason: str) -> dict[str, Any]:
    """Return the status of a request that was looked at: nodes of ``pool`` came for it, or the reason why none did."""
    moment = stamp(now())
    told = [("Accepted", "True", "Accepted", "the request is accepted")]
    if pool is not None:
        told.append(("Provisioned", "True", "Provisioned", f"nodes of {pool.name} are ready"))
    else:
        told.append(("Provisioned", "False", "NotProvisioned", reason))
    details = {"provisioningClassDetails": {"ResizeRequestName": _resize_name(request)}} if pool is not None else {}
    return {
        **details,
        "conditions": [
            {"type": kind, "status": value, "reason": why, "message": message, "lastTransitionTime": moment}
            for kind, value, why, message in told
        ],
    }


def refusal(pod: Mapping[str, Any], pool: Pool) -> str | None:
    """Return why a pod does not make a queued pool grow; None if the pool is not queued."""
    if not pool.queued:
        return None
    request = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    if request is None:
        return "node pool(s) with queued provisioning and the pod consumes no ProvisioningRequest"
    return f"node pool(s) whose nodes come for ProvisioningRequest {request}"
