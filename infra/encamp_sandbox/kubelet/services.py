"""The services that all pods of the kubelet share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from encamp_sandbox.kubelet.api import Api
    from encamp_sandbox.kubelet.egress import Dial
    from encamp_sandbox.kubelet.events import Events
    from encamp_sandbox.kubelet.on_demand import OnDemandTool
    from encamp_sandbox.kubelet.pod_network import PodNetwork
    from encamp_sandbox.kubelet.runtime import Runtime


@dataclass(frozen=True)
class Services:
    """The kubelet's means.

    Attributes:
        authority: the CA certificate of the API server.
        base_env: variables that every container gets.
        allocatable: gives what a node offers to pods, by its name.
        host_address: the nodes' own address.
        serve_metadata: serves one pod's own metadata server on a listening socket.
        dial: connects to an address and port, that of a pod among them.
        gcsfuse: what shows buckets to pods that ask for it.
    """

    api: Api
    events: Events
    runtime: Runtime
    network: PodNetwork
    pods_folder: Path
    authority: Path
    base_env: Mapping[str, str]
    allocatable: Callable[[str], Mapping[str, str]]
    host_address: str
    first_backoff_seconds: float
    serve_metadata: Callable[[socket.socket, Callable[[], Mapping[str, Any]]], Awaitable[asyncio.Server]]
    dial: Dial
    gcsfuse: OnDemandTool

    def note(self, pod: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Send an event on a pod."""
        self.events.send({"kind": "Pod", **pod}, reason, message, warning=warning)
