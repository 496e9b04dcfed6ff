"""The real control plane with our kubelet, and a front that has nothing but node pools."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from encamp_sandbox.access import write_access
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.controlplane import control_plane
from encamp_sandbox.gcp_provider.client import Rest
from encamp_sandbox.gcp_provider.model import Context
from encamp_sandbox.gcp_provider.session import GcpSession
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.provider import Resource
from encamp_sandbox.service import Probe, Service
from encamp_sandbox.state import read_state
from encamp_sandbox.supervisor.supervisor import Supervisor
from encamp_sandbox.tools import installed, manifest_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMESPACE = "trials"
CLUSTER = "projects/sandbox-encamp/locations/us-central1/clusters/encamp"


@dataclass
class FakeFront:
    """The container API with what a test puts in, and what the kubelet told it."""

    pools: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def add_pool(self, name: str, maximum: int, *, pool: dict[str, Any] | None = None, **config: Any) -> None:
        labels = {"encamp-pool": name}
        self.pools.append(
            {
                "name": name,
                "config": {"machineType": "e2-standard-2", "labels": labels, **config},
                "autoscaling": {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": maximum},
                "locations": ["us-central1-a", "us-central1-b"],
                "initialNodeCount": 0,
                **(pool or {}),
            }
        )

    def remove_pool(self, name: str) -> None:
        self.pools = [pool for pool in self.pools if pool["name"] != name]

    def answer(self, method: str, path: str, body: Any) -> Any:
        if path.endswith("/clusters"):
            cluster = {"name": "encamp", "location": "us-central1", "nodePools": self.pools}
            return {"clusters": [cluster]}
        if path.startswith("/encamp/v1/nodePools/"):
            self.sizes.setdefault(path.removesuffix("/size").rpartition("/")[2], []).append(body["currentNodeCount"])
        if path == "/logging/v2/entries:write":
            self.entries.extend(body["entries"])
        if path.endswith(":generateAccessToken"):
            account = path.rpartition("/")[2].removesuffix(":generateAccessToken")
            return {"accessToken": f"token of {account}", "expireTime": "2999-01-01T00:00:00Z"}
        return {"method": method}


def _serve(front: FakeFront, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            data = json.dumps(front.answer(self.command, self.path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = _answer  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@dataclass
class Cluster:
    """A sandbox's cluster, as tests use it."""

    layout: Layout
    api: httpx.Client
    front: FakeFront

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> dict[str, Any] | None:
        answer = self.api.get(path)
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def pod(self, name: str) -> dict[str, Any] | None:
        return self.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        found = self.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}")
        assert found is not None
        return found["items"]

    def phase(self, name: str) -> str:
        found = self.pod(name)
        return found["status"]["phase"] if found else "gone"

    def run(self, name: str, script: str, **spec: Any) -> dict[str, Any]:
        """A pod that runs a shell script in pool ``small``, once."""
        container = {"name": "replica", "image": "trainer", "command": ["sh", "-c", script]}
        container |= spec.pop("container", {})
        body = {
            "metadata": {"name": name, "annotations": spec.pop("annotations", {})},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"encamp-pool": "small"},
                "containers": [container],
                "terminationGracePeriodSeconds": 2,
                **spec,
            },
        }
        return self.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)

    def terminated(self, name: str) -> dict[str, Any]:
        """How the first container of a pod ended, once the pod has ended."""
        until(lambda: self.phase(name) in ("Succeeded", "Failed"))
        found = self.pod(name)
        assert found is not None
        return found["status"]["containerStatuses"][0]["state"]["terminated"]

    def log(self, name: str, **query: str) -> str:
        answer = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log", params=query)
        assert answer.is_success, answer.text
        return answer.text

    def kubectl(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.layout.admin_kubeconfig)}
        command = [str(installed()["kubectl"]), "-n", NAMESPACE, *arguments]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def events(self, name: str) -> dict[str, str]:
        """Messages by reason of the events on a pod, a line each."""
        found = self.get(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={name}")
        assert found is not None
        said: dict[str, list[str]] = {}
        for event in found["items"]:
            said.setdefault(event["reason"], []).append(event["message"])
        return {reason: "\n".join(messages) for reason, messages in said.items()}

    def nodes(self) -> list[str]:
        found = self.get("/api/v1/nodes")
        assert found is not None
        return [node["metadata"]["name"] for node in found["items"]]

    def kubelet_pid(self) -> int:
        state = read_state(self.layout)
        assert state is not None
        pid = state.processes["kubelet"].pid
        assert pid is not None
        return pid

    def kill_kubelet(self) -> None:
        os.kill(self.kubelet_pid(), signal.SIGKILL)


def until(true: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.05)


def _layout(folder: Path) -> Layout:
    layout = Layout.create(folder)
    issue_certificates(layout)
    write_access(layout, {"kubectl": installed()["kubectl"]}, path="")
    return layout


def _service(name: str, needs: tuple[str, ...], probe: Probe, **environment: str) -> Service:
    paths = os.pathsep.join(path for path in sys.path if path)
    argv = (sys.executable, "-m", f"encamp_sandbox.{name}")
    return Service(name, argv, (probe,), needs, environment={"PYTHONPATH": paths, **environment})


@contextlib.contextmanager
def _running(layout: Layout, front: FakeFront, *cloud: Service) -> Iterator[Cluster]:
    """The control plane, our kubelet and what else is given, under the supervisor."""
    tools = installed()
    kubelet = _service(
        "kubelet",
        ("kube-apiserver", *(service.name for service in cloud)),
        Probe(layout.ports.kubelet, "/healthz", layout.ca_certificate),
        ENCAMP_SANDBOX_IDLE_SECONDS="5",
        ENCAMP_SANDBOX_BACKOFF_SECONDS="1",
    )
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()
    kept = [*control_plane(layout, tools), *cloud, kubelet]
    supervisor = Supervisor(layout, kept, *manifest_files())
    thread = threading.Thread(target=lambda: loop.run_until_complete(supervisor.run(stop)))
    thread.start()
    context = ssl.create_default_context(cafile=str(layout.ca_certificate))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    try:
        until(lambda: (state := read_state(layout)) is not None and state.all_ready, 90)
        base = f"https://127.0.0.1:{layout.ports.apiserver}"
        with httpx.Client(base_url=base, verify=context, timeout=20, trust_env=False) as client:
            made = Cluster(layout, client, front)
            made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            until(lambda: made.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
            yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    layout = _layout(tmp_path_factory.mktemp("kubelet") / "sb")
    front = FakeFront()
    front.add_pool("small", 3)
    server = _serve(front, layout.ports.front)
    try:
        with _running(layout, front) as made:
            yield made
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(name="until")
def patience() -> Callable[..., None]:
    return until


@dataclass
class Storage:
    """The real cloud beside a cluster, as its administrator."""

    rest: httpx.Client

    def make_bucket(self, name: str, *readers_and_writers: str) -> None:
        """A bucket and the service accounts that may do everything with its objects."""
        self.rest.post("/storage/v1/b?project=sandbox-encamp", json={"name": name}).raise_for_status()
        members = [f"serviceAccount:{email}" for email in readers_and_writers]
        policy = {"bindings": [{"role": "roles/storage.objectUser", "members": members}]}
        self.rest.put(f"/storage/v1/b/{name}/iam", json=policy if members else {"bindings": []}).raise_for_status()

    def write(self, bucket: str, name: str, content: bytes) -> None:
        query = {"uploadType": "media", "name": name}
        self.rest.post(f"/upload/storage/v1/b/{bucket}/o", params=query, content=content).raise_for_status()

    def read(self, bucket: str, name: str) -> bytes:
        path = f"/download/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media"
        return self.rest.get(path).raise_for_status().content

    def names(self, bucket: str) -> list[str]:
        return [one["name"] for one in self.rest.get(f"/storage/v1/b/{bucket}/o").json().get("items", [])]


@dataclass
class Camp:
    """A cluster with a real cloud: buckets, identities, node pools."""

    cluster: Cluster
    storage: Storage


def _declare(layout: Layout) -> None:
    """A cluster, its pool ``small`` and the service account ``trainer``, as a stack would make them."""
    cloud = Cloud.open(layout.cloud_database, layout.project, layout)
    front, _ = make_front(cloud, layout)
    rest = Rest.inside(front, layout.token)
    session = GcpSession(Context(rest=rest, project=layout.project, region="us-central1"))
    place = {"cluster": "encamp", "location": "us-central1"}
    node = {"machineType": "e2-standard-2", "labels": {"encamp-pool": "small"}}
    cluster = {"name": "encamp", "location": "us-central1", "initialNodeCount": 1, "removeDefaultNodePool": True}
    wanted = {
        "gcp:compute/network:Network": {"name": "camp", "autoCreateSubnetworks": True},
        "gcp:container/cluster:Cluster": cluster | {"network": "camp", "deletionProtection": False},
        "gcp:container/nodePool:NodePool": {
            "name": "small",
            **place,
            "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"},
            "nodeConfig": node,
        },
        "gcp:serviceaccount/account:Account": {"accountId": "trainer"},
    }

    async def declare() -> None:
        for kind, inputs in wanted.items():
            resource = Resource(kind, f"urn:pulumi:dev::camp::{kind}::one", "one")
            checked = await session.check(resource, {}, inputs, seed=b"seed")
            assert list(checked.failures) == []
            await session.create(resource, checked.inputs, time_limit=None, preview=False)

    asyncio.run(declare())
    cloud.close()


@pytest.fixture(scope="module")
def camp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    with _opened_camp(tmp_path_factory.mktemp("camp") / "sb") as made:
        yield made


@pytest.fixture(scope="session")
def opened_camp() -> Callable[[Path], contextlib.AbstractContextManager[Camp]]:
    """Opens a camp in a folder."""
    return _opened_camp


@contextlib.contextmanager
def _opened_camp(folder: Path) -> Iterator[Camp]:
    layout = _layout(folder)
    _declare(layout)
    ports = layout.ports
    cloud = (
        _service("storage", (), Probe(ports.storage)),
        _service("cloud", ("storage",), Probe(ports.front, "/healthz")),
    )
    headers = {"authorization": f"Bearer {layout.token}"}
    base = f"http://127.0.0.1:{ports.front}"
    with (
        _running(layout, FakeFront(), *cloud) as cluster,
        httpx.Client(base_url=base, headers=headers, timeout=20, trust_env=False) as rest,
    ):
        yield Camp(cluster, Storage(rest))
