"""The control plane alone, really run: what the sandbox's other parts may rely on."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from encamp_sandbox.access import write_access
from encamp_sandbox.controlplane import control_plane
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.state import read_state
from encamp_sandbox.supervisor.supervisor import Supervisor
from encamp_sandbox.tools import installed, manifest_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sandbox
_SECONDS = 120.0
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    made = Layout.create(tmp_path_factory.mktemp("controlplane"))
    tools = installed()
    issue_certificates(made)
    write_access(made, {"kubectl": tools["kubectl"]}, path="")
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()
    supervisor = Supervisor(made, control_plane(made, tools), *manifest_files())
    thread = threading.Thread(target=lambda: loop.run_until_complete(supervisor.run(stop)))
    thread.start()
    try:
        _until(lambda: (state := read_state(made)) is not None and state.all_ready)
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def api(layout: Layout) -> Iterator[httpx.Client]:
    context = ssl.create_default_context(cafile=str(layout.ca_certificate))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    server = f"https://127.0.0.1:{layout.ports.apiserver}"
    with httpx.Client(base_url=server, verify=context, timeout=20, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def node(api: httpx.Client) -> str:
    """A node as a kubelet would keep it: a Lease, and a status that is ready."""
    name = "node-1"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _post(
        api, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "a"}}}
    )
    lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now.replace("Z", ".000000Z")}
    _post(
        api,
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": lease},
    )
    conditions = [
        {"type": kind, "status": value, "reason": "Test", "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, value in (
            ("Ready", "True"),
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
        )
    ]
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    api.patch(
        f"/api/v1/nodes/{name}/status",
        headers={"Content-Type": "application/merge-patch+json"},
        json={"status": {"capacity": resources, "allocatable": resources, "conditions": conditions}},
    ).raise_for_status()
    return name


@pytest.fixture
def namespace(api: httpx.Client) -> Iterator[str]:
    name = f"test-{os.urandom(4).hex()}"
    _post(api, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    _until(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").is_success)
    yield name
    api.delete(f"/api/v1/namespaces/{name}").raise_for_status()
    for pod in _pods(api, name):
        api.request("DELETE", f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.1)


def _post(api: httpx.Client, path: str, item: dict[str, Any]) -> dict[str, Any]:
    answer = api.post(path, json=item)
    assert answer.is_success, answer.text
    created: dict[str, Any] = answer.json()
    return created


def _pods(api: httpx.Client, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
    return items


def _job_set(name: str, **selector: str) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": selector,
        "containers": [{"name": "replica", "image": "example.invalid/image"}],
    }
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": pod}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job}}]},
    }


def test_every_server_listens_on_loopback_alone(layout: Layout) -> None:
    state = read_state(layout)
    assert state is not None
    for name, process in state.processes.items():
        listening = [
            connection.laddr
            for connection in psutil.Process(process.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening, name
        assert {address.ip for address in listening} == {"127.0.0.1"}, name


def test_a_ready_node_loses_its_taints(api: httpx.Client, node: str) -> None:
    _until(lambda: not api.get(f"/api/v1/nodes/{node}").json()["spec"].get("taints"))
    assert api.get(f"/api/v1/nodes/{node}").json()["metadata"]["labels"] == {"pool": "a"}


def test_a_job_sets_pods_get_names_and_nodes_and_go_with_it(api: httpx.Client, node: str, namespace: str) -> None:
    path = _JOBSETS.format(namespace)
    _post(api, path, _job_set("train", pool="a"))
    _until(lambda: [pod["spec"].get("nodeName") for pod in _pods(api, namespace)] == [node, node])
    pods = _pods(api, namespace)
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods} == {
        ("train-worker-0-0", "train"),
        ("train-worker-0-1", "train"),
    }
    assert api.get(f"/api/v1/namespaces/{namespace}/services/train").json()["spec"]["clusterIP"] == "None"
    api.delete(f"{path}/train", params={"propagationPolicy": "Background"}).raise_for_status()
    _until(lambda: all(pod["metadata"].get("deletionTimestamp") for pod in _pods(api, namespace)))
    _until(lambda: not api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs").json()["items"])


def test_a_pod_that_no_node_fits_says_why(api: httpx.Client, node: str, namespace: str) -> None:
    assert node
    _post(api, _JOBSETS.format(namespace), _job_set("train", pool="b"))

    def reasons() -> list[str]:
        conditions = [c for pod in _pods(api, namespace) for c in pod["status"].get("conditions", [])]
        return [c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]

    _until(lambda: len(reasons()) == 2)
    assert "didn't match Pod's node affinity/selector" in reasons()[0]


def test_the_webhooks_of_job_set_are_asked(api: httpx.Client, namespace: str) -> None:
    answer = api.post(_JOBSETS.format(namespace), json=_job_set("train" * 12))
    assert answer.status_code == 422, answer.text
    assert "validate-jobset-x-k8s-io-v1alpha2-jobset.x-k8s.io" in answer.text


def test_strangers_get_nothing(layout: Layout) -> None:
    trusting = ssl.create_default_context(cafile=str(layout.ca_certificate))
    server = f"https://127.0.0.1:{layout.ports.apiserver}"
    with httpx.Client(base_url=server, verify=trusting, trust_env=False) as stranger:
        for path in ("/api/v1/secrets", "/version", "/healthz"):
            assert stranger.get(path).status_code == 401
        assert stranger.get("/api/v1/secrets", headers={"Authorization": "Bearer guess"}).status_code == 401
        for port in (layout.ports.controller_manager, layout.ports.scheduler):
            for path in ("/healthz", "/metrics", "/configz"):
                assert stranger.get(f"https://127.0.0.1:{port}{path}").status_code in (401, 403)
    with (
        httpx.Client(verify=trusting, trust_env=False) as stranger,
        pytest.raises(httpx.TransportError),
    ):
        stranger.get(f"https://127.0.0.1:{layout.ports.etcd_client}/version")


def test_kubectl_gets_in_as_a_person_does(layout: Layout) -> None:
    environment = {"KUBECONFIG": str(layout.kubeconfig), "PATH": os.defpath, "HOME": str(layout.root)}
    answer = subprocess.check_output(
        [str(layout.bin / "kubectl"), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"],
        env=environment,
        text=True,
    )
    assert answer == f"encamp-admin@{layout.project}.iam.gserviceaccount.com"
