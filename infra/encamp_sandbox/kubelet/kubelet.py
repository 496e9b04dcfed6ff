"""The kubelet's parts put together: runtime, pods, nodes, and the servers that others ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.controlplane import EGRESS
from encamp_sandbox.kubelet.api import Api
from encamp_sandbox.kubelet.cloud_logs import CloudLogs
from encamp_sandbox.kubelet.direct import DirectConnections
from encamp_sandbox.kubelet.egress import serve_egress
from encamp_sandbox.kubelet.events import Events
from encamp_sandbox.kubelet.front import Front
from encamp_sandbox.kubelet.isolation import NAMESPACES, choose_runtime
from encamp_sandbox.kubelet.log_server import LogServer
from encamp_sandbox.kubelet.memory import keep_limits
from encamp_sandbox.kubelet.metadata import MetadataServer
from encamp_sandbox.kubelet.namespaces import GOOGLE, NETWORK
from encamp_sandbox.kubelet.network_policy.enforcer import Enforcer
from encamp_sandbox.kubelet.nodes import Nodes
from encamp_sandbox.kubelet.on_demand import OnDemandTool
from encamp_sandbox.kubelet.pod import PodLife
from encamp_sandbox.kubelet.pod_network import PodNetwork
from encamp_sandbox.kubelet.relay import relay
from encamp_sandbox.kubelet.server import serve
from encamp_sandbox.kubelet.services import Services
from encamp_sandbox.kubelet.system_pods import is_stand_in
from encamp_sandbox.lies.inside import InsideLies
from encamp_sandbox.outbound import proxy
from encamp_sandbox.outbound.destinations import Public, own_addresses
from encamp_sandbox.outbound.owner import owner_indexes
from encamp_sandbox.ports import API_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from encamp_sandbox.kubelet.runtime import Runtime
    from encamp_sandbox.layout import Layout

_LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
_LONGEST_TARGET = 200
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "PIP_CERT",
)
#: By these a program in a pod finds the API server.
_API_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": API_ADDRESS,
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
}
#: Settings of this machine's pip that a pod needs to find packages.
_PIP_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_FIND_LINKS", "PIP_NO_INDEX")


@dataclass(frozen=True)
class Settings:
    """Settings of the kubelet, by environment variables of the sandbox.

    Attributes:
        idle_seconds: ENCAMP_SANDBOX_IDLE_SECONDS: how long a node stays without a pod.
        backoff_seconds: ENCAMP_SANDBOX_BACKOFF_SECONDS: the first wait before a container starts again.
        isolation: ENCAMP_SANDBOX_ISOLATION: ``namespaces``, ``none``, or empty for what this machine allows.
    """

    idle_seconds: float = 10.0
    backoff_seconds: float = 10.0
    isolation: str = ""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Settings:
        """Read them. Raises ValueError."""
        return cls(
            idle_seconds=float(variables.get("ENCAMP_SANDBOX_IDLE_SECONDS") or cls.idle_seconds),
            backoff_seconds=float(variables.get("ENCAMP_SANDBOX_BACKOFF_SECONDS") or cls.backoff_seconds),
            isolation=variables.get("ENCAMP_SANDBOX_ISOLATION", ""),
        )


@dataclass
class _Pods:
    """Every pod of the cluster as the API server has it, and the lives of those that are on our nodes."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    lives: dict[str, PodLife] = field(default_factory=dict)

    def life_at(self, address: str) -> PodLife | None:
        alive = (life for life in self.lives.values() if life.address == address and not life.terminal)
        return next(alive, None)

    def at(self, address: str) -> dict[str, Any] | None:
        life = self.life_at(address)
        return None if life is None else life.pod

    def on(self, node: str) -> list[PodLife]:
        return [life for life in self.lives.values() if life.pod["spec"].get("nodeName") == node]


class Kubelet:
    """The kubelet of all nodes of one sandbox."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self._layout = layout
        self._settings = settings
        self._pods = _Pods()
        self._lies = InsideLies(layout.lies)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _isolation(self) -> str:
        """The required isolation: controllers listen on ports that this machine may need itself."""
        return NAMESPACES if self._layout.config.installs_controllers else self._settings.isolation

    async def run(self) -> None:
        """Run until cancelled; what it started is gone then. Raises SandboxError and OSError at start."""
        layout, ports = self._layout, self._layout.ports
        async with contextlib.AsyncExitStack() as stack:
            api = Api.from_kubeconfig(layout.admin_kubeconfig)
            stack.push_async_callback(api.close)
            front = Front(f"http://{HOST}:{ports.front}", layout.token, layout.project)
            stack.push_async_callback(front.close)
            logs = LogServer(lambda: list(self._pods.lives.values()), layout.pki, HOST, ports.kubelet)
            stack.push_async_callback(_close_server, await logs.start())
            runtime, verdict = await choose_runtime(layout, self._isolation)
            _LOG.info("isolation: %s", verdict)
            stack.push_async_callback(runtime.close)
            kubelet_events, scaler_events = Events(api, "kubelet"), Events(api, "cluster-autoscaler")
            nodes = Nodes(
                api,
                front,
                scaler_events,
                lambda: list(self._pods.objects.values()),
                self._pods.on,
                host=HOST,
                port=ports.kubelet,
                idle_seconds=self._settings.idle_seconds,
            )
            metadata = MetadataServer(api, front, self._pods.at, nodes.get, self._lies)
            enforcer = Enforcer(NETWORK, runtime.lead)
            services = self._services(
                api, kubelet_events, runtime, nodes, metadata=metadata, network=PodNetwork(enforcer)
            )
            for server in await self._serve_pods(runtime, metadata, enforcer):
                stack.push_async_callback(_close_server, server)
            await nodes.load()
            shipper = CloudLogs(front, lambda: list(self._pods.lives.values()), nodes.get)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(kubelet_events.run())
                    group.create_task(scaler_events.run())
                    group.create_task(nodes.run())
                    group.create_task(shipper.run())
                    group.create_task(enforcer.run(api))
                    group.create_task(keep_limits(lambda: list(self._pods.lives.values())))
                    group.create_task(self._watch(api, services, nodes))
            finally:
                for life in self._pods.lives.values():
                    life.abandon()

    def _services(
        self,
        api: Api,
        events: Events,
        runtime: Runtime,
        nodes: Nodes,
        *,
        metadata: MetadataServer,
        network: PodNetwork,
    ) -> Services:
        pip = {name: os.environ[name] for name in _PIP_VARIABLES if os.environ.get(name)}
        return Services(
            api=api,
            events=events,
            runtime=runtime,
            network=network,
            pods_folder=self._layout.kubelet_data / "pods",
            authority=self._layout.ca_certificate,
            base_env={
                **dict.fromkeys(_CA_VARIABLES, _CERTIFICATES),
                **pip,
                **(_API_VARIABLES if "apiserver" in runtime.listeners else {}),
            },
            allocatable=nodes.allocatable,
            host_address=HOST,
            first_backoff_seconds=self._settings.backoff_seconds,
            serve_metadata=metadata.serve_one,
            dial=runtime.dial,
            gcsfuse=OnDemandTool("gcsfuse"),
        )

    async def _serve_pods(self, runtime: Runtime, metadata: MetadataServer, enforcer: Enforcer) -> list[asyncio.Server]:
        """Serve what pods reach at the gateway and at fixed addresses, and the way from the API server to them."""
        ports, listeners = self._layout.ports, runtime.listeners
        servers = []
        if "metadata" in listeners:
            servers.append(await asyncio.start_server(partial(serve, metadata.answer), sock=listeners["metadata"]))
        for name, port in (("tls", ports.front_tls), ("apiserver", ports.apiserver)):
            if name in listeners:
                servers.append(await relay(listeners[name], HOST, port))
        destinations = Public(owner_indexes(os.environ), own_addresses, enforcer.rules_at)
        if "proxy" in listeners:
            front = proxy.Front(ports.front_tls, lambda client, port: enforcer.rules_at(client).lets_out(GOOGLE, port))
            servers.append(await proxy.ConnectProxy(listeners["proxy"], front, destinations, self._connected).start())
        if "direct" in listeners:
            servers.append(await DirectConnections(destinations, self._connected).serve(listeners["direct"]))
        if self._layout.config.installs_controllers:
            servers.append(await serve_egress(self._layout.socket(EGRESS), runtime.dial))
        return servers

    def _connected(self, address: str, target: str, refusal: str) -> None:
        """Write to a pod's log where the pod connected to, or why it could not."""
        if (life := self._pods.life_at(address)) is not None:
            what = f"no connection to {target[:_LONGEST_TARGET]}: {refusal}" if refusal else f"connected to {target}"
            life.notices.tell(f"encamp: {what}")

    async def _watch(self, api: Api, services: Services, nodes: Nodes) -> None:
        async for kind, body in api.watch("/api/v1/pods"):
            if kind == "LIST":
                found = {pod["metadata"]["uid"]: {"kind": "Pod", **pod} for pod in body.get("items") or []}
                for uid in self._pods.objects.keys() - found.keys():
                    self._forget(uid)
                self._clean(services.pods_folder, found)
                for pod in found.values():
                    self._see(pod, services, nodes)
            elif kind == "DELETED":
                self._forget(body["metadata"]["uid"])
            else:
                self._see(body, services, nodes)
            nodes.wake()

    def _see(self, pod: dict[str, Any], services: Services, nodes: Nodes) -> None:
        pod = self._lies.pod(pod)
        uid = pod["metadata"]["uid"]
        self._pods.objects[uid] = pod
        if (life := self._pods.lives.get(uid)) is None:
            node = pod["spec"].get("nodeName")
            if not node or not nodes.is_ours(node) or is_stand_in(pod):
                return
            life = self._pods.lives[uid] = PodLife(pod, services)
        services.network.update(uid, pod)
        life.update(pod)

    def _forget(self, uid: str) -> None:
        self._pods.objects.pop(uid, None)
        if (life := self._pods.lives.pop(uid, None)) is not None:
            task = asyncio.create_task(life.remove())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _clean(folder: Path, pods: Mapping[str, Any]) -> None:
        """Drop what is on disk of pods that are gone."""
        for old in folder.glob("*_*_*"):
            if old.name.rsplit("_", 1)[1] not in pods:
                shutil.rmtree(old, ignore_errors=True)


async def _close_server(server: asyncio.Server) -> None:
    server.close()
