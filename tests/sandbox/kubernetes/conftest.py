"""A real etcd, API server and controller manager, and an engine's side of the provider protocol."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import httpx
import pytest
from google.protobuf.empty_pb2 import Empty

from encamp.process.linux import death_with_parent
from encamp_sandbox.controlplane import control_plane
from encamp_sandbox.kubernetes.objects import kind_of_token
from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.provider import ProviderServer, messages
from encamp_sandbox.provider.values import decode, encode
from encamp_sandbox.tools import installed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout

OFFICIAL = "pulumi-resource-kubernetes"
WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@contextmanager
def running(layout: Layout) -> Iterator[None]:
    """etcd, kube-apiserver and kube-controller-manager of a sandbox, without its supervisor."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for service in control_plane(layout, installed())[:3]:
            with layout.log(service.name).open("wb") as log:
                environment = {**os.environ, **service.environment}
                started = subprocess.Popen(
                    service.argv,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    # However the tests end: a worker that is killed takes down nothing by itself.
                    preexec_fn=death_with_parent(),  # noqa: PLW1509 - it makes one system call and takes no lock
                )
                processes.append(started)
            end = time.monotonic() + 60
            while not all(asyncio.run(probe.answers()) for probe in service.probes):
                assert processes[-1].poll() is None, layout.log(service.name).read_text()[-2000:]
                assert time.monotonic() < end, layout.log(service.name).read_text()[-2000:]
                time.sleep(0.1)
        yield
    finally:
        # Nobody needs the data any more, and the API server takes 17 s to end in peace.
        for process in processes:
            process.kill()
            process.wait()


class Cluster:
    """The API server as kubectl would see it, past the provider."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.kubeconfig = layout.kubeconfig.read_text()
        self.http = httpx.Client(
            base_url=f"https://127.0.0.1:{layout.ports.apiserver}",
            verify=ssl.create_default_context(cafile=str(layout.ca_certificate)),
            headers={"Authorization": f"Bearer {layout.token}"},
            trust_env=False,
        )

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        kind = "application/json"
        if method == "PATCH":
            kind = "application/apply-patch+yaml" if "fieldManager" in query else "application/merge-patch+json"
        response = self.http.request(method, path, json=body, params=query, headers={"Content-Type": kind})
        response.raise_for_status()
        return response.json()

    def exists(self, path: str) -> bool:
        return self.http.get(path).status_code == httpx.codes.OK


class Host(messages.engine_pb2_grpc.EngineServicer):
    """The engine's service for its plugins: takes what they log."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def Log(self, request: Any, context: Any) -> Empty:  # noqa: N802 - the protocol's name
        """Keep a message."""
        del context
        self.said.append(request.message)
        return Empty()


class Engine:
    """Speaks to a provider as the engine does, in plain data.

    Attributes:
        host: the engine's own service, at ``address``.
    """

    def __init__(self, stub: Any, host: Host, address: str) -> None:
        self.stub = stub
        self.host = host
        self.types = messages.provider_pb2
        self._address = address

    async def configure(self, **args: Any) -> None:
        """Greet the provider and configure it, by the old fields and the new ones, as the engine does."""
        try:
            await self.stub.Handshake(self.types.ProviderHandshakeRequest(engine_address=self._address))
        except grpc.aio.AioRpcError as error:
            # The engine goes on without: older plugins have no such call (provider_plugin.go of its SDK).
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        request = self.types.ConfigureRequest(
            urn="urn:pulumi:dev::test::pulumi:providers:kubernetes::p",
            name="p",
            type="pulumi:providers:kubernetes",
            args=encode(args),
            variables={f"kubernetes:config:{name}": value for name, value in args.items()},
            acceptSecrets=True,
            acceptResources=True,
            sends_old_inputs=True,
            sends_old_inputs_to_delete=True,
        )
        await self.stub.Configure(request)

    @staticmethod
    def about(token: str, name: str) -> dict[str, Any]:
        return {"urn": f"urn:pulumi:dev::test::{token}::{name}", "name": name, "type": token}

    async def check(self, token: str, name: str, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Any:
        """The checked inputs; ``apiVersion`` and ``kind`` are added, as every class of the SDK adds its own."""
        api_version, kind = kind_of_token(token)
        news = {"apiVersion": api_version, "kind": kind, **news}
        request = self.types.CheckRequest(
            **self.about(token, name), olds=encode(olds or {}), news=encode(news), randomSeed=name.encode().ljust(32)
        )
        answer = await self.stub.Check(request)
        assert not answer.failures, answer.failures
        return decode(answer.inputs)

    async def create(self, token: str, name: str, news: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
        inputs = await self.check(token, name, news)
        request = self.types.CreateRequest(**self.about(token, name), properties=encode(inputs), **more)
        answer = await self.stub.Create(request)
        return answer.id, {"inputs": inputs, "outputs": decode(answer.properties)}

    async def diff(self, token: str, name: str, state: dict[str, Any], news: dict[str, Any], **more: Any) -> Any:
        inputs = await self.check(token, name, news, state["inputs"])
        request = self.types.DiffRequest(
            **self.about(token, name),
            id="x",
            olds=encode(state["outputs"]),
            old_inputs=encode(state["inputs"]),
            news=encode(inputs),
            **more,
        )
        return await self.stub.Diff(request)

    async def update(
        self, token: str, name: str, state: dict[str, Any], news: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        inputs = await self.check(token, name, news, state["inputs"])
        request = self.types.UpdateRequest(
            **self.about(token, name),
            id="x",
            olds=encode(state["outputs"]),
            old_inputs=encode(state["inputs"]),
            news=encode(inputs),
            **more,
        )
        return {"inputs": inputs, "outputs": decode((await self.stub.Update(request)).properties)}

    async def read(self, token: str, name: str, resource_id: str, state: dict[str, Any] | None = None) -> Any:
        state = state or {"inputs": {}, "outputs": {}}
        request = self.types.ReadRequest(
            **self.about(token, name),
            id=resource_id,
            properties=encode(state["outputs"]),
            inputs=encode(state["inputs"]),
        )
        return await self.stub.Read(request)

    async def delete(self, token: str, name: str, resource_id: str, state: dict[str, Any], **more: Any) -> None:
        request = self.types.DeleteRequest(
            **self.about(token, name),
            id=resource_id,
            properties=encode(state["outputs"]),
            old_inputs=encode(state["inputs"]),
            **more,
        )
        await self.stub.Delete(request)


@asynccontextmanager
async def hosting() -> AsyncGenerator[tuple[Host, str]]:
    """The engine's own service, and its address."""
    host, server = Host(), grpc.aio.server()
    messages.engine_pb2_grpc.add_EngineServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield host, f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def connected(port: int, host: Host, address: str, args: dict[str, Any]) -> AsyncGenerator[Engine]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        engine = Engine(messages.provider_pb2_grpc.ResourceProviderStub(channel), host, address)
        await engine.configure(**args)
        yield engine


@asynccontextmanager
async def our_provider(**args: Any) -> AsyncGenerator[Engine]:
    server = ProviderServer(KubernetesProvider(None))
    port = await server.start()
    try:
        async with hosting() as (host, address), connected(port, host, address, args) as engine:
            yield engine
    finally:
        await server.stop(grace=0.1)


@asynccontextmanager
async def official_provider(**args: Any) -> AsyncGenerator[Engine]:
    """The plugin that is on PATH, started with the engine's address as the engine starts it."""
    async with hosting() as (host, address):
        process = await asyncio.create_subprocess_exec(OFFICIAL, address, stdout=asyncio.subprocess.PIPE)
        assert process.stdout
        try:
            async with connected(int(await process.stdout.readline()), host, address, args) as engine:
                yield engine
        finally:
            process.terminate()
            await process.wait()


IMPLEMENTATIONS = {"ours": our_provider} | ({"official": official_provider} if shutil.which(OFFICIAL) else {})


@pytest.fixture(scope="package")
def cluster(engine_layout: Layout) -> Generator[Cluster]:
    with running(engine_layout):
        made = Cluster(engine_layout)
        made.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        for _ in range(100):
            if made.exists("/apis/example.com/v1/widgets"):
                break
            time.sleep(0.1)
        yield made
        made.http.close()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own; the cluster goes when the tests have ended."""
    name = f"t-{abs(hash(request.node.nodeid)) % 10**8}"
    cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture(params=IMPLEMENTATIONS)
def provider(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The implementation under contract: a context manager that takes the provider's arguments."""
    return IMPLEMENTATIONS[request.param]


@pytest.fixture
def ours() -> Callable[..., Any]:
    """Our own implementation."""
    return our_provider


@pytest.fixture
def missing_kubeconfig(tmp_path: Path) -> str:
    return str(tmp_path / "none")
