"""Look-alikes of a job that belong to somebody else: names that begin like the job's, its labels, another owner.

Their deadline has passed, so that nothing but the owner tells them from what the reaper may take.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from harness.listing import CLUSTER, NAMESPACE, PROJECT

if TYPE_CHECKING:
    from harness.front import Front

_PATIENCE_SECONDS = 60.0
_JOB_SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"


class Foreign:
    """The look-alikes of one job, whose short cloud name is ``name``."""

    def __init__(self, front: Front, name: str) -> None:
        self._front = front
        self._name = name
        self._other = f"{name[:20]}-x"
        labels = {
            "encamp-job": name,
            "encamp-owner": "somebody-else",
            "encamp-environment": "sandbox",
            "encamp-deadline": "1000000000",
        }
        #: What all of their names begin with.
        self.prefix = self._other
        self._paths = {
            "bucket": f"/storage/v1/b/{self._other}-bucket",
            "bucket without labels": f"/storage/v1/b/{self._other}-plain",
            "node pool": f"/container/v1/{CLUSTER}/nodePools/{self._other}",
            "service account": f"/iam/v1/projects/{PROJECT}/serviceAccounts/{self._account}",
        }
        self._plant(labels)
        self._planted = self._seen()

    def touched(self) -> list[str]:
        """Which of them are not as they were planted."""
        seen = self._seen()
        return [kind for kind, was in self._planted.items() if was is None or seen[kind] != was]

    def remove(self) -> None:
        """Take them away."""
        for path in self._paths.values():
            self._on_cluster("DELETE", path)
        self._front.kubernetes("DELETE", f"{_JOB_SETS}/{self._other}")

    @property
    def _account(self) -> str:
        return f"{self._other}@{PROJECT}.iam.gserviceaccount.com"

    def _plant(self, labels: dict[str, str]) -> None:
        words = " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        for name, worn in ((f"{self._other}-bucket", labels), (f"{self._other}-plain", dict[str, str]())):
            body = {"name": name, "location": "US-CENTRAL1", "labels": worn}
            self._front.google("POST", "/storage/v1/b", params={"project": PROJECT}, json=body)
        job_set = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": self._other, "labels": labels},
            "spec": {"suspend": True, "replicatedJobs": [_REPLICAS]},
        }
        self._front.kubernetes("POST", _JOB_SETS, json=job_set)
        config = {"machineType": "e2-medium", "resourceLabels": labels, "labels": labels}
        pool = {"nodePool": {"name": self._other, "config": config, "initialNodeCount": 0}}
        self._on_cluster("POST", f"/container/v1/{CLUSTER}/nodePools", json=pool)
        account = {"accountId": self._other, "serviceAccount": {"description": words}}
        self._front.google("POST", f"/iam/v1/projects/{PROJECT}/serviceAccounts", json=account)

    def _on_cluster(self, method: str, path: str, **options: Any) -> None:
        """Change a cluster, which lets one operation at a time run: other trials' come before this one."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self._front.google(method, path, **options)
            except httpx.HTTPStatusError as error:
                if "incompatible operation" not in error.response.text or time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return

    def _seen(self) -> dict[str, Any]:
        seen: dict[str, Any] = {kind: self._front.google("GET", path) for kind, path in self._paths.items()}
        job_set = self._front.kubernetes("GET", f"{_JOB_SETS}/{self._other}")
        seen["JobSet"] = job_set and (job_set["metadata"]["uid"], job_set["metadata"].get("deletionTimestamp"))
        return seen


_REPLICAS: dict[str, Any] = {
    "name": "worker",
    "template": {
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nobody/nothing"}]}}
        }
    },
}
