"""The reason why a job waits in a queue, in Kueue's own words: a used quota, or requested machines.

Beliefs: kueue-suspends-until-admitted, kueue-workload-of-a-job-set.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError

if TYPE_CHECKING:
    from encamp.cloud.kubernetes import Cluster

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
#: Kueue's label of a Workload: whose it is.
_OWNER_LABEL = "kueue.x-k8s.io/job-uid"


def waits_in_queue(job_set: dict[str, Any]) -> bool:
    """Whether a JobSet is held back until its queue lets it in."""
    labels = job_set["metadata"].get("labels") or {}
    return QUEUE_LABEL in labels and bool(job_set.get("spec", {}).get("suspend"))


def queue_words(cluster: Cluster, job_set: dict[str, Any]) -> list[str]:
    """Return one sentence for what a job waits for; it waits on where the cluster does not let it be read."""
    metadata = job_set["metadata"]
    queue = metadata["labels"][QUEUE_LABEL]
    found: list[dict[str, Any]] = []
    with contextlib.suppress(EngineError):
        found = cluster.list("workloads", metadata["namespace"], f"{_OWNER_LABEL}={metadata['uid']}")
    reasons = [reason for workload in found if (reason := _reason(workload.get("status", {})))]
    return [f"the job waits in the queue {queue}{f': {reasons[0]}' if reasons else ''}"]


def _reason(status: dict[str, Any]) -> str:
    """Return what is missing: quota, else a check after it."""
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    reserved = conditions.get("QuotaReserved", {})
    if reserved.get("status") != "True":
        return str(reserved.get("message", ""))
    for check in status.get("admissionChecks") or []:
        if check["state"] != "Ready":
            return f"{check['name']}: {check.get('message') or check['state']}"
    return ""
