"""Kueue's objects for an environment's queues.

Fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/. How GKE is asked for all machines at once:
https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.environment.queues import FLAVOR_LABEL, RESOURCES
from encamp.plan.manifests.views import PROVISIONING_CLASS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.environment.queues import FlavorPlan, ProvisioningCheckPlan, QueuesPlan, TeamQueuePlan

API_VERSION = "kueue.x-k8s.io/v1beta2"
_GROUP = API_VERSION.partition("/")[0]
#: Names a request for machines on the nodes that come for it.
_REQUEST_LABEL = "autoscaling.gke.io/provisioning-request"
_NEVER = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
_LOWER = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}

Manifest = dict[str, Any]


def queue_manifests(plan: QueuesPlan, labels: Mapping[str, str]) -> tuple[tuple[Manifest, ...], ...]:
    """Return the objects of all queues, in stages: each names only what stands in an earlier one.

    Args:
        plan: the queues.
        labels: of every object.
    """
    made = [
        [_config(check) for check in plan.checks],
        [_flavor(flavor) for flavor in plan.flavors]
        + [_check(check) for check in plan.checks]
        + [_priority(name, value) for name, value in plan.priorities.items()],
        [_cluster_queue(plan, queue) for queue in plan.queues],
        [_local_queue(plan, queue) for queue in plan.queues],
    ]
    return tuple(tuple(_labelled(one, labels) for one in stage) for stage in made)


def _labelled(manifest: Manifest, labels: Mapping[str, str]) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": dict(labels)}}


def _object(kind: str, name: str, **more: Any) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, **more}


def _flavor(flavor: FlavorPlan) -> Manifest:
    return _object("ResourceFlavor", flavor.name, spec={"nodeLabels": {FLAVOR_LABEL: flavor.label}})


def _priority(name: str, value: int) -> Manifest:
    return _object("WorkloadPriorityClass", name, value=value)


def _config(check: ProvisioningCheckPlan) -> Manifest:
    node = {"key": _REQUEST_LABEL, "valueFromProvisioningClassDetail": "ResizeRequestName"}
    spec = {
        "provisioningClassName": PROVISIONING_CLASS,
        "managedResources": [check.resource],
        "podSetUpdates": {"nodeSelector": [node]},
    }
    return _object("ProvisioningRequestConfig", check.name, spec=spec)


def _check(check: ProvisioningCheckPlan) -> Manifest:
    config = {"apiGroup": _GROUP, "kind": "ProvisioningRequestConfig", "name": check.name}
    spec = {"controllerName": f"{_GROUP}/provisioning-request", "parameters": config}
    return _object("AdmissionCheck", check.name, spec=spec)


def _cluster_queue(plan: QueuesPlan, queue: TeamQueuePlan) -> Manifest:
    limit = {} if queue.borrows else {"borrowingLimit": "0"}
    flavors = [
        {
            "name": quota.flavor,
            "resources": [{"name": name, "nominalQuota": quota.amounts[name], **limit} for name in RESOURCES],
        }
        for quota in queue.quotas
    ]
    spec: dict[str, Any] = {
        "cohortName": plan.cohort,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": plan.namespace}},
        "preemption": _LOWER if plan.preempts else _NEVER,
        "resourceGroups": [{"coveredResources": list(RESOURCES), "flavors": flavors}],
    }
    if queue.checks:
        rules = [{"name": name, "onFlavors": list(on)} for name, on in sorted(queue.checks.items())]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return _object("ClusterQueue", queue.cluster_queue, spec=spec)


def _local_queue(plan: QueuesPlan, queue: TeamQueuePlan) -> Manifest:
    made = _object("LocalQueue", queue.team, spec={"clusterQueue": queue.cluster_queue})
    return {**made, "metadata": {**made["metadata"], "namespace": plan.namespace}}
