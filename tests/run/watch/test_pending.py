from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.job_cases import job_case

from encamp.jobs.opening import allocatable_room
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.run.watch.pending import quantity, waiting
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from encamp.plan.model import NodePoolPlan

LABELS = {"encamp-job": "j"}


def _pod(
    selector: dict[str, str], tolerations: list[dict[str, str]] | None = None, cpu: str = "3500m"
) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "nodeSelector": selector,
            "tolerations": tolerations or [],
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "10Gi"}}}],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}],
        },
    }


def _pool(name: str, **config: Any) -> dict[str, Any]:
    return {"name": name, "config": {"machineType": "n1-standard-4", "labels": LABELS, **config}}


def _say(pod: dict[str, Any], pools: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> str:
    room = {"cpu": 3.92, "memory": 12.0 * 2**30}
    waits = waiting([pod], events or [], pools, lambda one: one["metadata"]["name"], lambda _: room)
    lines = [wait.in_full for wait in waits]
    assert len(lines) <= 1
    return lines[0] if lines else ""


def test_a_missing_pool_is_named_beside_those_that_are_there() -> None:
    said = _say(_pod({"cloud.google.com/gke-nodepool": "j-worker"}), [_pool("j-master")])
    assert said == (
        "p: node pool j-worker is missing in the cluster (there: j-master) (scheduler: 0/1 nodes are available.)"
    )


@pytest.mark.parametrize(
    ("pod", "config", "words"),
    [
        (_pod({"encamp-job": "k"}), {}, "label encamp-job=k is wanted, the pool has j"),
        (_pod({"disk": "fast"}), {}, "label disk=fast is wanted, the pool has no such label"),
        (
            _pod({}),
            {"taints": [{"key": "encamp-job", "value": "j", "effect": "NO_SCHEDULE"}]},
            "taint encamp-job=j:NoSchedule is not tolerated",
        ),
        (_pod({}, cpu="8"), {}, "8 cpu wanted, one n1-standard-4 leaves 3.92 cpu"),
    ],
)
def test_what_does_not_match_is_said(pod: dict[str, Any], config: dict[str, Any], words: str) -> None:
    assert f"node pool a does not fit: {words}" in _say(pod, [_pool("a", **config)])


def test_a_pool_that_fits_is_waited_for() -> None:
    tolerated = [{"key": "encamp-job", "operator": "Equal", "value": "j", "effect": "NoSchedule"}]
    pod = _pod({"encamp-job": "j", "cloud.google.com/gke-nodepool": "a"}, tolerated)
    pool = _pool("a", taints=[{"key": "encamp-job", "value": "j", "effect": "NO_SCHEDULE"}])
    event = {"reason": "TriggeredScaleUp", "involvedObject": {"uid": "u"}, "message": "pool a 0->1"}
    assert _say(pod, [pool], [event]) == "p: a machine is being added; usually 1 to 3 min on GKE"


def test_the_autoscalers_reason_is_passed_on() -> None:
    event = {"reason": "NotTriggerScaleUp", "involvedObject": {"uid": "u"}, "message": "1 max node group size reached"}
    assert "no machine is added: 1 max node group size reached" in _say(_pod({}), [_pool("a")], [event])


def test_the_nearest_of_several_pools_is_explained() -> None:
    said = _say(_pod({"x": "1", "encamp-job": "j"}), [_pool("far", labels={}), _pool("near")])
    assert said.startswith("p: node pool near does not fit")


def test_an_image_that_cannot_be_pulled_is_said() -> None:
    pod = _pod({})
    pod["spec"]["nodeName"] = "n"
    pod["status"]["containerStatuses"] = [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image x"}}}
    ]
    assert _say(pod, []) == "p: ImagePullBackOff: no image x"


def test_replicas_with_one_reason_share_a_line() -> None:
    pods = [{**_pod({}), "metadata": {"name": f"p{i}", "uid": str(i)}} for i in range(5)]
    lines = waiting(pods, [], [], lambda one: one["metadata"]["name"])
    assert list(map(str, lines)) == [
        "p0, p1, p2 and 2 more: the cluster has no node pool (scheduler: 0/1 nodes are available.)"
    ]


@pytest.mark.parametrize(("text", "value"), [("500m", 0.5), ("2", 2.0), ("1Gi", 2.0**30), ("1k", 1e3), ("x", 0.0)])
def test_quantities(text: str, value: float) -> None:
    assert quantity(text) == value


def _as_gke_lists(pool: NodePoolPlan) -> dict[str, Any]:
    key, value, _ = pool.taint
    config: dict[str, Any] = {
        "machineType": pool.machine_type,
        "labels": dict(pool.labels),
        "taints": [{"key": key, "value": value, "effect": "NO_SCHEDULE"}],
        "spot": pool.spot,
        "flexStart": pool.waits_for_room,
    }
    if pool.accelerator is not None and pool.tpu_topology is None:
        config["accelerators"] = [{"acceleratorType": pool.accelerator.type}]
    if pool.reservation is not None:
        config["reservationAffinity"] = {"values": [pool.reservation]}
    return {"name": pool.name, "config": config}


@pytest.mark.parametrize("case", ["flex-start", "gpu-gb200", "queued", "reservation", "spot-all-roles", "rdma-h200"])
def test_a_pool_that_was_made_for_a_pod_fits_it(case: str) -> None:
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "artifacts"}
    environment = parse_environment(data, project="sandbox-encamp", source="test")
    plan = plan_job(job_case(case).job_file().job.model_copy(update={"job_id": "job"}), environment)
    listed = [_as_gke_lists(pool) for pool in plan.node_pools]
    status = _pod({})["status"]
    for job in render_manifests(plan).job_set["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]["template"]["spec"]
        pod = {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}
        (said,) = waiting([pod], [], listed, lambda one: one["metadata"]["name"], allocatable_room)
        assert said.reason.startswith("waits for a machine"), said
