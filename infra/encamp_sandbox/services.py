"""Every server of the sandbox in one list: the control plane, the cloud, the kubernetes provider, the kubelet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from encamp_sandbox.controlplane import control_plane
from encamp_sandbox.layout import OURS
from encamp_sandbox.service import Probe, Service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from encamp_sandbox.layout import Layout

_KUBELET_GRACE_SECONDS = 20.0


def service_names(kubernetes_provider: str, *, installs_controllers: bool = False) -> list[str]:
    """Return the names of all servers, in the order in which people read them."""
    provider = ["kubernetes-provider"] if kubernetes_provider == OURS else []
    jobset = [] if installs_controllers else ["jobset"]
    control = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", *jobset]
    return [*control, "storage", "cloud", *provider, "kubelet"]


def services(layout: Layout, tools: Mapping[str, Path]) -> list[Service]:
    """Return every server of this sandbox."""
    ports = layout.ports
    provider = Service("kubernetes-provider", _python("kubernetes"), (Probe(ports.kubernetes_provider),))
    cloud_ports = (ports.gcp_provider, ports.front_tls, ports.proxy)
    return [
        *control_plane(layout, tools),
        _storage(layout),
        Service(
            "cloud",
            _python("cloud"),
            (Probe(ports.front, "/healthz"), *(Probe(port) for port in cloud_ports)),
            ("storage",),
        ),
        *([provider] if layout.config.kubernetes_provider == OURS else []),
        Service(
            "kubelet",
            _python("kubelet"),
            (Probe(ports.kubelet, "/healthz", layout.ca_certificate),),
            ("kube-apiserver", "cloud"),
            grace_seconds=_KUBELET_GRACE_SECONDS,
        ),
    ]


def later_services(layout: Layout) -> list[Service]:
    """Return the servers that somebody has requested from this sandbox since it was made."""
    if layout.config.installs_controllers or not layout.queues_mark.is_file():
        return []
    from encamp_sandbox.kueue import kueue_service  # noqa: PLC0415 - most sandboxes do without

    return [kueue_service(layout)]


def _storage(layout: Layout) -> Service:
    from encamp_sandbox.cloud.storage_server import storage_argv  # noqa: PLC0415 - as late as the others' modules

    return Service("storage", tuple(storage_argv(layout)), (Probe(layout.ports.storage),))


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"encamp_sandbox.{module}")
