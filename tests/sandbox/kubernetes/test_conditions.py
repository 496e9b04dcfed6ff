from __future__ import annotations

import json
from typing import Any

import pytest

from encamp_sandbox.kubernetes.conditions import default_check, wait_for
from encamp_sandbox.provider import ProviderError

OBJECT: dict[str, Any] = {
    "metadata": {"generation": 2, "labels": {"a.b/c": "x"}},
    "status": {
        "terminalState": "Completed",
        "ready": 3,
        "ok": True,
        "jobs": [{"name": "m", "active": 1}, {"name": "w", "active": 0}],
        "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 2},
            {"type": "Stale", "status": "True", "observedGeneration": 1},
            {"type": "Bad", "status": "False", "reason": "Because", "message": "so"},
        ],
    },
}


@pytest.mark.parametrize(
    ("annotation", "ready"),
    [
        ("jsonpath={.status.terminalState}", True),
        ("jsonpath={.status.terminalState}=Completed", True),
        ("jsonpath={.status.terminalState}=Failed", False),
        ("jsonpath={.status.absent}", False),
        ("jsonpath={.status.ready}=3", True),
        ("jsonpath={.status.ok}=true", True),
        ("jsonpath={$.status.jobs[0].name}=m", True),
        ("jsonpath={.status.jobs[-1].name}=w", True),
        ("jsonpath={.status.jobs[*].active}=0", True),
        ('jsonpath={.status.jobs[?(@.name=="w")].active}=0', True),
        ('jsonpath={.status.jobs[?(@.name=="m")].active}=0', False),
        ("jsonpath={.metadata.labels['a.b/c']}=x", True),
        ("condition=Ready", True),
        ("condition=ready=true", True),
        ("condition=Bad=False", True),
        ("condition=Bad", False),
        ("condition=Stale", False),
        ("condition=Absent", False),
        (json.dumps(["condition=Ready", "jsonpath={.status.ready}=3"]), True),
        (json.dumps(["condition=Ready", "jsonpath={.status.ready}=4"]), False),
    ],
)
def test_wait_for(annotation: str, ready: bool) -> None:
    assert wait_for(annotation)(OBJECT).ready is ready


def test_what_is_waited_for_is_told() -> None:
    assert wait_for("condition=Bad")(OBJECT).reason == "condition Bad is False: Because: so, waiting for True"
    reason = wait_for("jsonpath={.status.ready}=4")(OBJECT).reason
    assert reason == ".status.ready is 3, waiting for 4"


@pytest.mark.parametrize(
    "annotation", ["", "ready", "jsonpath=.status", "jsonpath={.a}b", "jsonpath={.a[?(x)]}", "[1]", "[broken"]
)
def test_a_malformed_wait_is_refused(annotation: str) -> None:
    with pytest.raises(ProviderError, match="waitFor"):
        wait_for(annotation)


def status(kind: str, version: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"generation": 1}, "spec": spec, "status": status}


CONDITION = {"status": "True"}


@pytest.mark.parametrize(
    ("obj", "ready", "failed"),
    [
        (status("Pod", "v1", {"phase": "Succeeded"}), True, False),
        (status("Pod", "v1", {"phase": "Failed"}), False, True),
        (status("Pod", "v1", {"conditions": [{"type": "Ready", **CONDITION}]}), True, False),
        (status("Pod", "v1", {"conditions": [{"type": "PodScheduled", "status": "False"}]}), False, False),
        (status("Job", "batch/v1", {"conditions": [{"type": "Complete", **CONDITION}]}), True, False),
        (status("Job", "batch/v1", {"conditions": [{"type": "Failed", **CONDITION}]}), False, True),
        (status("Job", "batch/v1", {}), False, False),
        (
            status(
                "Deployment",
                "apps/v1",
                {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2},
                replicas=2,
            ),
            True,
            False,
        ),
        (status("Deployment", "apps/v1", {"observedGeneration": 0, "updatedReplicas": 1}), False, False),
        (
            status(
                "Deployment",
                "apps/v1",
                {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]},
            ),
            False,
            True,
        ),
        (status("StatefulSet", "apps/v1", {"observedGeneration": 1, "readyReplicas": 1}), True, False),
        (status("Service", "v1", {}, type="ClusterIP"), True, False),
        (status("Service", "v1", {"loadBalancer": {}}, type="LoadBalancer"), False, False),
    ],
)
def test_built_in_kinds(obj: dict[str, Any], ready: bool, failed: bool) -> None:
    check = default_check(obj)
    assert check
    found = check(obj)
    assert (found.ready, found.failed) == (ready, failed)


def test_nothing_else_is_waited_for() -> None:
    assert default_check({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}) is None
    assert default_check({"apiVersion": "v1", "kind": "ConfigMap"}) is None
