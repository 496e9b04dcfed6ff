"""Kueue's own controller takes what an environment tells it, and lets in the jobs that are within their quota."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.api_client import api_client
from encamp.cloud.kubernetes import Cluster
from encamp.plan.environment.charts import read_chart
from encamp.plan.environment.queue_manifests import queue_manifests
from encamp.plan.environment.queues import plan_queues
from encamp.plan.job import environment_labels, plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.run.watch.queued import queue_words, waits_in_queue
from encamp.spec.encamp import GpuType, Provisioning, TpuVersion
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/encamp-jobs/jobsets"
SECONDS = 60.0


def lab() -> EnvironmentSpec:
    """Every kind of machine that a quota may be for, as far as Kueue takes them, and two teams that share CPUs."""
    kinds = [
        {"provisioning": how.value, "accelerator": what.value, "count": 16}
        for what in (*GpuType, *TpuVersion)
        for how in Provisioning
    ]
    teams = {
        "research": {"quotas": [{"cpu": 8, "memoryGib": 1024}, *kinds[:60]]},
        "vision": {"quotas": [{"cpu": 1}], "borrow": False},
    }
    queues = {"teams": teams, "priorities": {"low": 1, "high": 1000}, "preemption": "lower-priority"}
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "sandbox-encamp-artifacts", "queues": queues}
    return parse_environment(data, project="sandbox-encamp", source="test")


def job_set(job_id: str, machine: str, **block: Any) -> dict[str, Any]:
    """A job of one master in the queue of research, as it is rendered."""
    training = {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": machine,
        "masterConfig": {"imageUri": "gcr.io/my-project/trainer"},
    }
    written = {"trainingInput": training, "encamp": {"queue": "research", **block}}
    return render_manifests(plan_job(parse_job(written, source="test").named(job_id).job, lab())).job_set


def post(api: httpx.Client, path: str, item: dict[str, Any]) -> dict[str, Any]:
    answer = api.post(path, params={"fieldValidation": "Strict"}, content=json.dumps(item))
    assert answer.is_success, answer.text
    made: dict[str, Any] = answer.json()
    return made


def holds(kept: Any, meant: Any) -> bool:
    """Whether an object is kept as it was meant, whatever the server adds to it."""
    if isinstance(meant, dict):
        return all(key in kept and holds(kept[key], value) for key, value in meant.items())
    if isinstance(meant, list):
        return len(kept) == len(meant) and all(map(holds, kept, meant))
    same: bool = kept == meant
    return same


def place(item: dict[str, Any]) -> str:
    """The path of an object."""
    version, metadata, kind = item["apiVersion"], item["metadata"], item["kind"].lower()
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{kind}es" if kind.endswith("class") else f"{kind}s"
    return f"/{'apis' if '/' in version else 'api'}/{version}{namespace}/{plural}/{metadata['name']}"


def collection(item: dict[str, Any]) -> str:
    return place(item).rpartition("/")[0]


def until(api: httpx.Client, name: str, *, waits: bool) -> dict[str, Any]:
    """A JobSet as soon as it waits in its queue with a reason, or does not wait any more."""
    end = time.monotonic() + SECONDS
    while True:
        found: dict[str, Any] = api.get(f"{JOB_SETS}/{name}").json()
        if waits_in_queue(found) is waits:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(shared_camp: Camp) -> Iterator[Cluster]:
    shared_camp.encamp("sandbox", "up", "--queues")
    found = Cluster(shared_camp.layout.kubeconfig.read_text())
    yield found
    found.close()


@pytest.fixture(scope="module")
def api(shared_camp: Camp, cluster: Cluster) -> Iterator[httpx.Client]:
    """A client of a cluster with the queues; they are taken away again."""
    assert cluster is not None
    plan = plan_queues(lab())
    assert plan is not None
    with api_client(shared_camp.layout.kubeconfig.read_text()) as client:
        made = [one for stage in queue_manifests(plan, environment_labels(lab())) for one in stage]
        for one in made:
            kept = post(client, collection(one), one)
            # What the API server writes differently would be a change in every preview.
            assert holds(kept, one), kept
        yield client
        for one in reversed(made):
            client.delete(place(one)).raise_for_status()


def test_every_object_of_the_charts_is_taken(api: httpx.Client) -> None:
    """As they are made on Google Cloud, under other names: in the sandbox types and webhooks are there already."""
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    for name in ("jobset", "kueue"):
        chart = read_chart(name)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chart["namespace"]}}
        assert api.post("/api/v1/namespaces", content=json.dumps(namespace)).status_code in {201, 409}
        for original in chart["objects"]:
            if original["kind"] == "CustomResourceDefinition":
                assert api.get(place(original)).is_success
                continue
            item = {**original, "metadata": {**original["metadata"], "name": f"{original['metadata']['name']}-tried"}}
            answer = api.post(collection(item), params=strict, content=json.dumps(item))
            assert answer.is_success, f"{item['kind']} {item['metadata']['name']}: {answer.text}"
            assert "warning" not in answer.headers


def test_what_is_beyond_the_quota_waits_until_there_is_room(api: httpx.Client, cluster: Cluster) -> None:
    first = job_set("first", "n1-standard-8", priority="high")
    second = job_set("second", "n1-standard-4", priority="low")
    post(api, JOB_SETS, first)
    until(api, first["metadata"]["name"], waits=False)
    post(api, JOB_SETS, second)
    name = second["metadata"]["name"]
    waiting = until(api, name, waits=True)
    end = time.monotonic() + SECONDS
    while "insufficient" not in "".join(said := queue_words(cluster, waiting)):
        assert time.monotonic() < end, said
        time.sleep(0.1)
    api.delete(f"{JOB_SETS}/{first['metadata']['name']}").raise_for_status()
    let_in = until(api, name, waits=False)
    # Kueue writes no selector of its own into what we made: the replicas ask for their flavor themselves.
    pods = [one["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] for one in (second, let_in)]
    assert pods[0]["nodeSelector"] == pods[1]["nodeSelector"]
    api.delete(f"{JOB_SETS}/{name}").raise_for_status()


def test_a_job_that_claims_network_interfaces_is_let_in_by_its_gpus_alone(api: httpx.Client) -> None:
    image = {"imageUri": "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"}
    training = {"scaleTier": "CUSTOM", "region": "us-central1", "masterConfig": image, "workerCount": 1}
    machine = {"gpu": {"type": "NVIDIA_H200_141GB", "count": 8}}
    block = {"queue": "research", "machines": {"master": machine, "worker": machine}}
    job = parse_job({"trainingInput": training, "encamp": block}, source="test").named("claims").job
    manifests = render_manifests(plan_job(job, lab()))
    (template,) = manifests.claim_templates
    post(api, collection(template), template)
    post(api, JOB_SETS, manifests.job_set)
    until(api, manifests.job_set["metadata"]["name"], waits=False)
    api.delete(f"{JOB_SETS}/{manifests.job_set['metadata']['name']}").raise_for_status()
    api.delete(place(template)).raise_for_status()
