"""The autoscaler against the real scheduler: nodes come for pods that wait, and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.kubelet.system_pods import STAND_IN

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sandbox

WHOLE_NODE = {"resources": {"requests": {"cpu": "1200m"}}}


def of_pool(cluster: Any, pool: str) -> list[str]:
    return [name for name in cluster.nodes() if name.startswith(f"gke-encamp-{pool}-")]


def test_a_pool_grows_from_nothing_to_its_maximum_and_back(cluster: Any, until: Callable[..., None]) -> None:
    cluster.front.add_pool("wide", 3)
    selector = {"encamp-pool": "wide"}
    for index in range(4):
        cluster.run(f"wide-{index}", "sleep 4", nodeSelector=selector, container=WHOLE_NODE)
    until(lambda: len(of_pool(cluster, "wide")) == 3)
    until(lambda: sum(cluster.phase(f"wide-{index}") == "Running" for index in range(4)) == 3)
    until(lambda: any("NotTriggerScaleUp" in cluster.events(f"wide-{index}") for index in range(4)))
    noted = [cluster.events(f"wide-{index}") for index in range(4)]
    assert any("TriggeredScaleUp" in events for events in noted)
    said = next(events["NotTriggerScaleUp"] for events in noted if "NotTriggerScaleUp" in events)
    assert "1 max node group size reached" in said
    assert "1 node(s) didn't match Pod's node affinity/selector" in said
    until(lambda: all(cluster.phase(f"wide-{index}") == "Succeeded" for index in range(4)))
    until(lambda: of_pool(cluster, "wide") == [])
    until(lambda: cluster.front.sizes["wide"][-1] == 0)
    assert max(cluster.front.sizes["wide"]) == 3
    cluster.front.remove_pool("wide")


def test_a_node_looks_like_one_of_gke(cluster: Any, until: Callable[..., None]) -> None:
    taint = {"key": "encamp-job", "value": "j", "effect": "NO_SCHEDULE"}
    cluster.front.add_pool("marked", 1, taints=[taint], spot=True)
    toleration = {"key": "encamp-job", "operator": "Equal", "value": "j", "effect": "NoSchedule"}
    cluster.run("marked", "true", nodeSelector={"encamp-pool": "marked"}, tolerations=[toleration])
    cluster.terminated("marked")
    node = cluster.get(f"/api/v1/nodes/{cluster.pod('marked')['spec']['nodeName']}")
    labels = node["metadata"]["labels"]
    assert labels["cloud.google.com/gke-nodepool"] == "marked"
    assert labels["cloud.google.com/gke-spot"] == "true"
    assert labels["node.kubernetes.io/instance-type"] == "e2-standard-2"
    assert labels["topology.kubernetes.io/region"] == "us-central1"
    assert labels["topology.kubernetes.io/zone"] in ("us-central1-a", "us-central1-b")
    assert {"key": "encamp-job", "value": "j", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["capacity"]["cpu"] == "2"
    assert node["status"]["allocatable"]["cpu"] == "1930m"
    lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node['metadata']['name']}")
    assert node["status"]["allocatable"]["ephemeral-storage"] == "44876Mi"
    assert lease["spec"]["holderIdentity"] == node["metadata"]["name"]
    cluster.front.remove_pool("marked")
    until(lambda: of_pool(cluster, "marked") == [])


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [
        ("elsewhere", {"nodeSelector": {"encamp-pool": "none"}}, "node affinity/selector"),
        ("greedy", {"container": {"resources": {"requests": {"cpu": "64"}}}}, "1 Insufficient cpu"),
    ],
)
def test_a_pod_that_no_pool_can_host_waits_and_everybody_says_why(
    cluster: Any, until: Callable[..., None], name: str, spec: dict[str, Any], reason: str
) -> None:
    cluster.run(name, "true", **spec)
    until(lambda: "NotTriggerScaleUp" in cluster.events(name), 5)
    assert reason in cluster.events(name)["NotTriggerScaleUp"]
    condition = cluster.pod(name)["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert cluster.phase(name) == "Pending"
    assert "available" in condition["message"]
    assert cluster.api.delete(f"/api/v1/namespaces/trials/pods/{name}").is_success


def test_a_deleted_pool_takes_its_nodes_and_pods_with_it(cluster: Any, until: Callable[..., None]) -> None:
    cluster.front.add_pool("brief", 1)
    cluster.run("evicted", "sleep 300", nodeSelector={"encamp-pool": "brief"})
    until(lambda: cluster.phase("evicted") == "Running")
    cluster.front.remove_pool("brief")
    until(lambda: of_pool(cluster, "brief") == [], 6)
    until(lambda: cluster.phase("evicted") in ("gone", "Failed"), 10)


def disruption(cluster: Any, pod: str) -> tuple[str, str, str]:
    """Phase and reason of a pod, and the reason of its disruption."""
    status = cluster.pod(pod)["status"]
    found = [one["reason"] for one in status["conditions"] if (one["type"], one["status"]) == DISRUPTED]
    return status["phase"], status.get("reason", ""), "".join(found)


def hold(cluster: Any, pod: str, *finalizers: str) -> None:
    path = f"/api/v1/namespaces/trials/pods/{pod}"
    headers = {"Content-Type": "application/merge-patch+json"}
    assert cluster.api.patch(path, json={"metadata": {"finalizers": finalizers}}, headers=headers).is_success


DISRUPTED = ("DisruptionTarget", "True")


def test_machines_that_go_away_say_so_on_their_pods(cluster: Any, until: Callable[..., None]) -> None:
    """After their run duration, by the cloud's own decision, or with their pool."""
    cluster.front.add_pool("mortal", 1, maxRunDuration="3s")
    cluster.front.add_pool("spot", 1, spot=True)
    cluster.front.add_pool("doomed", 1)
    script = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
    for pool in ("mortal", "spot", "doomed"):
        cluster.run(pool, script, nodeSelector={"encamp-pool": pool})
    # An evicted pod is deleted: it is held, so that what was said of it can be read.
    hold(cluster, "doomed", "encamp.dev/read")
    until(lambda: all(cluster.phase(pool) == "Running" for pool in ("spot", "doomed")))
    cluster.front.remove_pool("doomed")
    assert cluster.api.delete(f"/api/v1/nodes/{cluster.pod('spot')['spec']['nodeName']}").is_success
    until(lambda: not any(of_pool(cluster, pool) for pool in ("mortal", "spot", "doomed")))
    until(lambda: cluster.phase("spot") == "Failed")
    assert disruption(cluster, "mortal") == ("Failed", "Terminated", "TerminationByKubelet")
    assert disruption(cluster, "spot") == ("Failed", "Terminated", "TerminationByKubelet")
    assert disruption(cluster, "doomed")[2] == "EvictionByEvictionAPI"
    hold(cluster, "doomed")
    until(lambda: cluster.phase("doomed") == "gone")
    for pool in ("mortal", "spot"):
        cluster.front.remove_pool(pool)


TOLERATIONS = [{"operator": "Exists"}]


def test_a_slice_of_four_hosts_comes_whole_and_its_pods_know_each_other(
    cluster: Any, until: Callable[..., None]
) -> None:
    placement = {
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"},
        "locations": ["us-central1-a"],
    }
    cluster.front.add_pool("slice", 4, pool=placement, machineType="ct5lp-hightpu-4t")
    chips = {"resources": {"requests": {"google.com/tpu": 4}, "limits": {"google.com/tpu": 4}}}
    selector = {
        "encamp-pool": "slice",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    }
    cluster.run(
        "slice-1",
        "echo $TPU_WORKER_ID $TPU_WORKER_HOSTNAMES",
        container=chips,
        nodeSelector=selector,
        tolerations=TOLERATIONS,
        hostname="slice-1",
        subdomain="job",
        annotations={"batch.kubernetes.io/job-completion-index": "1"},
    )
    until(lambda: len(of_pool(cluster, "slice")) == 4)
    cluster.terminated("slice-1")
    assert cluster.log("slice-1").splitlines()[-1] == "1 slice-0.job,slice-1.job,slice-2.job,slice-3.job"
    assert "0->4 (max: 4)" in cluster.events("slice-1")["TriggeredScaleUp"]
    cluster.front.remove_pool("slice")
    until(lambda: of_pool(cluster, "slice") == [])


@pytest.mark.parametrize(
    ("config", "device", "labels"),
    [
        (
            {"machineType": "ct5lp-hightpu-8t", "flexStart": True},
            "google.com/tpu",
            {"cloud.google.com/gke-tpu-topology": "2x4", "cloud.google.com/gke-flex-start": "true"},
        ),
        (
            {"machineType": "ct3-hightpu-4t"},
            "google.com/tpu",
            {"cloud.google.com/gke-tpu-topology": "2x2", "cloud.google.com/gke-tpu-accelerator": "tpu-v3-device"},
        ),
        (
            {
                "machineType": "a3-highgpu-8g",
                "accelerators": [{"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}],
                "reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["ours"]},
            },
            "nvidia.com/gpu",
            {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb", "cloud.google.com/reservation-name": "ours"},
        ),
        (
            {
                "machineType": "g2-standard-12",
                "accelerators": [{"acceleratorType": "nvidia-l4", "acceleratorCount": "1"}],
                "spot": True,
            },
            "nvidia.com/gpu",
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-spot": "true"},
        ),
    ],
    ids=["v5e flex-start", "v3", "H100 reservation", "L4 spot"],
)
def test_nodes_with_accelerators_come_for_pods_that_select_them(
    cluster: Any, config: dict[str, Any], device: str, labels: dict[str, str]
) -> None:
    name = f"fast-{config['machineType']}"
    cluster.front.add_pool(name, 1, **config)
    asked = {"resources": {"requests": {device: 1}, "limits": {device: 1}}}
    selector = {"encamp-pool": name, **labels}
    cluster.run(name, "true", container=asked, nodeSelector=selector, tolerations=TOLERATIONS)
    cluster.terminated(name)
    assert cluster.phase(name) == "Succeeded"
    cluster.front.remove_pool(name)


def test_machines_that_are_queued_for_come_for_a_request_and_not_for_a_pod(
    cluster: Any, until: Callable[..., None]
) -> None:
    selector = {"encamp-pool": "queued", "cloud.google.com/gke-flex-start": "true"}
    pods = {"nodeSelector": selector, "tolerations": TOLERATIONS}
    cluster.front.add_pool("queued", 2, pool={"queuedProvisioning": {"enabled": True}}, flexStart=True)
    cluster.run("impatient", "true", **pods)
    # It may be looked at once before the new pool is known.
    until(lambda: "the pod consumes no ProvisioningRequest" in cluster.events("impatient").get("NotTriggerScaleUp", ""))
    namespace = "namespaces/trials"
    template = {"restartPolicy": "Never", "containers": [{"name": "replica", "image": "trainer"}], **pods}
    cluster.create(f"/api/v1/{namespace}/podtemplates", {"metadata": {"name": "ask"}, "template": {"spec": template}})
    requests = f"/apis/autoscaling.x-k8s.io/v1beta1/{namespace}/provisioningrequests"
    for name, count in (("too-many", 3), ("two", 2)):
        spec = {
            "provisioningClassName": "queued-provisioning.gke.io",
            "podSets": [{"count": count, "podTemplateRef": {"name": "ask"}}],
            "parameters": {"maxRunDurationSeconds": "12"},
        }
        kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "ProvisioningRequest"}
        cluster.create(requests, {**kind, "metadata": {"name": name}, "spec": spec})

    def said(name: str) -> dict[str, Any]:
        found = cluster.get(f"{requests}/{name}").get("status") or {}
        return {one["type"]: (one["status"], one["message"]) for one in found.get("conditions") or []}

    until(lambda: said("two").get("Provisioned", ("",))[0] == "True")
    names = of_pool(cluster, "queued")
    assert len(names) == 2
    # Each node says which request it came for, so that pods of another job in the same pool are kept off it.
    details = cluster.get(f"{requests}/two")["status"]["provisioningClassDetails"]
    labels = [cluster.get(f"/api/v1/nodes/{name}")["metadata"]["labels"] for name in names]
    assert [one["autoscaling.gke.io/provisioning-request"] for one in labels] == [details["ResizeRequestName"]] * 2
    until(lambda: "Provisioned" in said("too-many"))
    assert said("too-many")["Provisioned"][0] == "False"
    assert "of 3 nodes" in said("too-many")["Provisioned"][1]
    cluster.terminated("impatient")
    # They end when their request says, however long the pool's machines may run.
    until(lambda: set(of_pool(cluster, "queued")).isdisjoint(names))
    cluster.front.remove_pool("queued")
    until(lambda: of_pool(cluster, "queued") == [])


def system_pods(cluster: Any, node: str) -> dict[str, dict[str, Any]]:
    """GKE's own pods on a node, by the name of what they stand for."""
    found = cluster.get(f"/api/v1/pods?fieldSelector=spec.nodeName={node}&labelSelector={STAND_IN}")["items"]
    return {pod["metadata"]["labels"]["k8s-app"]: pod for pod in found}


def test_nodes_carry_gkes_own_pods(cluster: Any, until: Callable[..., None]) -> None:
    cluster.front.add_pool(
        "carrying",
        1,
        machineType="g2-standard-4",
        accelerators=[{"acceleratorType": "nvidia-l4", "acceleratorCount": "1"}],
        workloadMetadataConfig={"mode": "GKE_METADATA"},
    )
    cluster.run("carried", "sleep 66", nodeSelector={"encamp-pool": "carrying"}, tolerations=TOLERATIONS)
    until(lambda: cluster.phase("carried") == "Running")
    (node,) = of_pool(cluster, "carrying")
    found = system_pods(cluster, node)
    assert {"anetd", "gke-metadata-server", "nvidia-gpu-device-plugin", "dcgm-exporter", "collector"} <= found.keys()
    assert "tpu-device-plugin" not in found
    anetd = found["anetd"]
    assert anetd["metadata"]["name"] == f"anetd-{node}"
    assert "runs nothing" in anetd["metadata"]["annotations"][STAND_IN]
    assert anetd["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "205m", "memory": "300Mi"}
    assert anetd["spec"]["priority"] == 2000001000
    assert {pod["metadata"]["namespace"] for pod in found.values()} == {
        "kube-system",
        "gmp-system",
        "gke-managed-system",
    }
    # Somebody deletes one, and it comes back; those of a node that stays are reported as running.
    assert cluster.api.delete(f"/api/v1/namespaces/kube-system/pods/anetd-{node}").is_success
    until(lambda: {pod["status"]["phase"] for pod in system_pods(cluster, node).values()} == {"Running"}, 80)
    until(lambda: "anetd" in system_pods(cluster, node), 40)
    assert system_pods(cluster, node)["anetd"]["metadata"]["uid"] != anetd["metadata"]["uid"]
    # Nothing waits for them: the node is idle when its last other pod has ended, and takes them with it.
    until(lambda: of_pool(cluster, "carrying") == [], 60)
    assert system_pods(cluster, node) == {}
    cluster.front.remove_pool("carrying")


def test_a_pod_that_would_pend_on_gke_pends_here(cluster: Any, until: Callable[..., None]) -> None:
    """It fits what GKE leaves to pods of an e2-standard-2, 1930m, and not what GKE's own pods leave of that."""
    cluster.front.add_pool("full", 1)
    asked = {"resources": {"requests": {"cpu": "1600m"}}}
    cluster.run("squeezed", "true", container=asked, nodeSelector={"encamp-pool": "full"})
    until(lambda: "NotTriggerScaleUp" in cluster.events("squeezed"))
    assert "1 Insufficient cpu" in cluster.events("squeezed")["NotTriggerScaleUp"]
    # With a node there the scheduler says the same, by the requests of the pods that it sees.
    cluster.run("small", "sleep 6", nodeSelector={"encamp-pool": "full"})
    until(lambda: cluster.phase("small") == "Running")

    def condition() -> str:
        return str(cluster.pod("squeezed")["status"]["conditions"][0]["message"])

    until(lambda: "Insufficient cpu" in condition())
    assert cluster.phase("squeezed") == "Pending"
    assert cluster.api.delete("/api/v1/namespaces/trials/pods/squeezed").is_success
    cluster.front.remove_pool("full")
    until(lambda: of_pool(cluster, "full") == [])


def test_a_node_that_somebody_deletes_takes_its_system_pods_with_it(cluster: Any, until: Callable[..., None]) -> None:
    cluster.front.add_pool("taken", 1)
    cluster.run("bereft", "sleep 300", nodeSelector={"encamp-pool": "taken"})
    until(lambda: cluster.phase("bereft") == "Running")
    (node,) = of_pool(cluster, "taken")
    assert system_pods(cluster, node)
    assert cluster.api.delete(f"/api/v1/nodes/{node}").is_success
    until(lambda: system_pods(cluster, node) == {}, 40)
    cluster.front.remove_pool("taken")
    until(lambda: of_pool(cluster, "taken") == [])


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("gcr.io/ours/trainer:1", "is a custom container"),
        ("gcr.io/cloud-ml-algos/boosted_trees:latest", "is the built-in algorithm boosted_trees"),
    ],
)
def test_a_container_that_runs_its_image_fails_at_once_and_says_why(cluster: Any, image: str, said: str) -> None:
    name = f"image-{image.count('algos')}"
    cluster.run(name, "true", container={"image": image}, annotations={"encamp.dev/runs-image": "true"})
    ended = cluster.terminated(name)
    assert (ended["exitCode"], ended["reason"]) == (126, "ContainerRuntimeMissing")
    assert said in ended["message"]
    status = cluster.pod(name)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "ContainerRuntimeMissing")
    assert said in status["message"]
    assert said in cluster.log(name)
    assert said in cluster.events(name)["Failed"]
