"""Look-alikes of a job that belong to somebody else: names that begin like the job's, its labels, another owner.

Their deadline has passed, so that nothing but the owner tells them from what the reaper may take.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc

from encamp.sandbox.provider import messages
from encamp.sandbox.provider.values import encode
from harness.listing import CLUSTER, NAMESPACE, PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.sandbox.layout import Layout
    from harness.front import Front

_PATIENCE_SECONDS = 60.0
_JOB_SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"


class Foreign:
    """The look-alikes of one job, whose short cloud name is ``name``."""

    def __init__(self, front: Front, layout: Layout, name: str) -> None:
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
        self._plant(layout, labels)
        self._planted = self._seen()

    def touched(self) -> list[str]:
        """Which of them are not as they were planted."""
        seen = self._seen()
        return [kind for kind, was in self._planted.items() if was is None or seen[kind] != was]

    def remove(self) -> None:
        """Take them away."""
        for path in self._paths.values():
            self._front.google("DELETE", path)
        self._front.kubernetes("DELETE", f"{_JOB_SETS}/{self._other}")

    @property
    def _account(self) -> str:
        return f"{self._other}@{PROJECT}.iam.gserviceaccount.com"

    def _plant(self, layout: Layout, labels: dict[str, str]) -> None:
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
        pool = {"name": self._other, "cluster": CLUSTER, "location": "us-central1", "nodeConfig": config}
        with grpc.insecure_channel(f"127.0.0.1:{layout.ports.gcp_provider}") as channel:
            stub = messages.provider_pb2_grpc.ResourceProviderStub(channel)
            given = encode({"project": PROJECT, "region": "us-central1"})
            _asked(stub.Configure, messages.provider_pb2.ConfigureRequest(args=given, acceptSecrets=True))
            _create(stub, "gcp:container/nodePool:NodePool", {**pool, "initialNodeCount": 0})
            account = {"accountId": self._other, "description": words}
            _create(stub, "gcp:serviceaccount/account:Account", account)

    def _seen(self) -> dict[str, Any]:
        seen: dict[str, Any] = {kind: self._front.google("GET", path) for kind, path in self._paths.items()}
        job_set = self._front.kubernetes("GET", f"{_JOB_SETS}/{self._other}")
        seen["JobSet"] = job_set and (job_set["metadata"]["uid"], job_set["metadata"].get("deletionTimestamp"))
        return seen


def _create(stub: Any, token: str, inputs: dict[str, Any]) -> None:
    urn = f"urn:pulumi:dev::foreign::{token}::foreign"
    checked = _asked(stub.Check, messages.provider_pb2.CheckRequest(urn=urn, news=encode(inputs)))
    assert not checked.failures, checked.failures
    _asked(stub.Create, messages.provider_pb2.CreateRequest(urn=urn, properties=checked.inputs))


def _asked(method: Callable[..., Any], request: Any) -> Any:
    """Ask the provider, again where another trial has just killed it; what it had made already is made."""
    end = time.monotonic() + _PATIENCE_SECONDS
    again = False
    while True:
        try:
            return method(request, wait_for_ready=True, timeout=_PATIENCE_SECONDS)
        except grpc.RpcError as error:
            if again and "alreadyExists" in str(error):
                return None
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                raise
        again = True
        time.sleep(0.2)


_REPLICAS: dict[str, Any] = {
    "name": "worker",
    "template": {
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nobody/nothing"}]}}
        }
    },
}
