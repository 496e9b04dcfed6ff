"""Claims of network interfaces with RDMA, by the real scheduler and controllers, on nodes that offer simulated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.job_cases import job_case

from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan

pytestmark = pytest.mark.sandbox

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/trials"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def planned(case: str) -> JobPlan:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts", "namespace": "trials"}
    environment = parse_environment(data, project="sandbox-encamp", source="test")
    return plan_job(job_case(case).job_file().job, environment)


def add_pool(cluster: Any, plan: JobPlan, **network: Any) -> None:
    """The pool of a plan, as GKE would list it."""
    (pool,) = plan.node_pools
    key, value, _ = pool.taint
    assert pool.accelerator is not None
    accelerator = {"acceleratorType": pool.accelerator.type, "acceleratorCount": str(pool.accelerator.count)}
    cluster.front.add_pool(
        pool.name,
        pool.max_nodes,
        pool={"networkConfig": network},
        machineType=pool.machine_type,
        labels=dict(pool.labels),
        taints=[{"key": key, "value": value, "effect": "NO_SCHEDULE"}],
        accelerators=[accelerator],
        reservationAffinity={"values": [pool.reservation] if pool.reservation else []},
    )


def run(cluster: Any, plan: JobPlan, name: str, script: str) -> None:
    """A replica of the plan's that runs a script."""
    job_set = render_manifests(plan).job_set["spec"]
    spec = job_set["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    kept = {key: value for key, value in container.items() if key not in ("args", "env", "workingDir")}
    mounts = [one for one in container["volumeMounts"] if one["name"] != "bootstrap"]
    volumes = [one for one in spec["volumes"] if one["name"] != "bootstrap"]
    kept |= {"command": ["bash", "-c", script], "volumeMounts": mounts}
    body = {**spec, "containers": [kept], "volumes": volumes, "serviceAccountName": "default"}
    cluster.create("/api/v1/namespaces/trials/pods", {"metadata": {"name": name}, "spec": body})


def slices(cluster: Any, pool: str) -> list[dict[str, Any]]:
    found = cluster.get(SLICES)["items"]
    return [one for one in found if pool[:20] in one["spec"]["nodeName"]]


@pytest.mark.parametrize("case", ["rdma-h200", "rdma-gb200-own-program"])
def test_replicas_get_the_interfaces_that_they_claim(cluster: Any, until: Callable[..., None], case: str) -> None:
    plan = planned(case)
    (template,) = render_manifests(plan).claim_templates
    cluster.create(f"{CLAIMS}/resourceclaimtemplates", template)
    add_pool(cluster, plan, acceleratorNetworkProfile="auto")
    pool, nics = plan.node_pools[0].name, plan.node_pools[0].rdma_nics
    names = [f"{case}-{index}" for index in range(2)]
    for name in names:
        run(cluster, plan, name, "source /usr/local/gib/scripts/set_nccl_env.sh && sleep 2 && ls -d /dev/shm")
    until(lambda: all(cluster.phase(name) == "Running" for name in names))
    assert len({cluster.pod(name)["spec"]["nodeName"] for name in names}) == 2
    published = slices(cluster, pool)
    assert [len(one["spec"]["devices"]) for one in published] == [nics] * 2
    (node,) = {cluster.pod(names[0])["spec"]["nodeName"]}
    info = cluster.get(f"/api/v1/nodes/{node}")
    assert info["status"]["nodeInfo"]["architecture"] == plan.node_pools[0].architecture
    for name in names:
        (status,) = cluster.pod(name)["status"]["resourceClaimStatuses"]
        claim = cluster.get(f"{CLAIMS}/resourceclaims/{status['resourceClaimName']}")
        allocated = claim["status"]["allocation"]["devices"]["results"]
        assert len({one["device"] for one in allocated}) == nics
        assert {one["driver"] for one in allocated} == {"dra.net"}
    until(lambda: all(cluster.phase(name) == "Succeeded" for name in names))
    log = cluster.log(names[0])
    assert "encamp: rdma simulated" in log
    assert "RDMA is simulated: NCCL has no plugin here" in log
    cluster.front.remove_pool(pool)
    until(lambda: slices(cluster, pool) == [])
    for name in names:
        assert cluster.api.delete(f"/api/v1/namespaces/trials/pods/{name}").is_success
    until(lambda: cluster.get(f"{CLAIMS}/resourceclaims")["items"] == [])


def test_a_pool_without_the_network_profile_offers_none(cluster: Any, until: Callable[..., None]) -> None:
    plan = planned("rdma-h200")
    found = cluster.get(f"{CLAIMS}/resourceclaimtemplates/{plan.name}-rdma-8")
    if found is None:
        cluster.create(f"{CLAIMS}/resourceclaimtemplates", render_manifests(plan).claim_templates[0])
    add_pool(cluster, plan)
    run(cluster, plan, "unconnected", "true")
    until(lambda: "NotTriggerScaleUp" in cluster.events("unconnected"))
    assert "1 cannot allocate all claims" in cluster.events("unconnected")["NotTriggerScaleUp"]
    cluster.front.remove_pool(plan.node_pools[0].name)
    assert cluster.api.delete("/api/v1/namespaces/trials/pods/unconnected").is_success
