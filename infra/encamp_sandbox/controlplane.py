"""The processes of the control plane: etcd, Kubernetes and the JobSet controller. Pure but for two config files.

The servers are the real ones with their defaults, which are also GKE's, but for what one machine and one instance of
each make different: loopback only, no leader election (a killed one would wait for its own lease), client certificates
of the sandbox's own authority everywhere, and clients that may ask faster. Flags:
kubernetes.io/docs/reference/command-line-tools-reference, etcd.io/docs/v3.6/op-guide/configuration.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from encamp_sandbox.layout import write_private
from encamp_sandbox.ports import LOOPBACK, SERVICES
from encamp_sandbox.service import Probe, Service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from encamp_sandbox.layout import Layout

#: Name in ``needs`` of the moment when the cluster has JobSet's types and webhooks.
BOOTSTRAP = "bootstrap"
#: Socket by which the API server reaches pods and kubelet, where it reaches pods.
EGRESS = "egress.sock"
_QPS, _BURST = 300, 600
# Seconds of garbage collection more for half of the memory: eight Go servers share a laptop with the training. Who has
# memory to spare sets another.
SMALL = {"GOGC": os.environ.get("GOGC", "75")}


def control_plane(layout: Layout, tools: Mapping[str, Path]) -> list[Service]:
    """Return etcd, API server, controllers, scheduler and JobSet, in the order of their needs.

    Where environments install JobSet themselves, it is a pod.
    """
    return [
        _etcd(layout, tools["etcd"]),
        _apiserver(layout, tools["kube-apiserver"]),
        _controller_manager(layout, tools["kube-controller-manager"]),
        _scheduler(layout, tools["kube-scheduler"]),
        *([] if layout.config.installs_controllers else [_jobset(layout, tools["jobset"])]),
    ]


def _pair(layout: Layout, name: str) -> tuple[Path, Path]:
    return layout.pki / f"{name}.crt", layout.pki / f"{name}.key"


def _etcd(layout: Layout, binary: Path) -> Service:
    certificate, key = _pair(layout, "etcd")
    client = f"https://{LOOPBACK}:{layout.ports.etcd_client}"
    peer = f"https://{LOOPBACK}:{layout.ports.etcd_peer}"
    argv = (
        str(binary),
        "--name=sandbox",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=sandbox={peer}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        f"--trusted-ca-file={layout.ca_certificate}",
        "--client-cert-auth",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        f"--peer-trusted-ca-file={layout.ca_certificate}",
        "--peer-client-cert-auth",
        "--log-level=warn",
    )
    probe = Probe(layout.ports.etcd_client, "/health", layout.ca_certificate, (certificate, key))
    return Service("etcd", argv, (probe,), environment=SMALL)


def _apiserver(layout: Layout, binary: Path) -> Service:
    certificate, key = _pair(layout, "apiserver")
    etcd_certificate, etcd_key = _pair(layout, "etcd")
    kubelet_certificate, kubelet_key = _pair(layout, "kubelet-client")
    argv = (
        str(binary),
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.apiserver}",
        f"--advertise-address={LOOPBACK}",
        # The Service `kubernetes` cannot have a loopback address as its endpoint.
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICES}",
        f"--etcd-servers=https://{LOOPBACK}:{layout.ports.etcd_client}",
        f"--etcd-cafile={layout.ca_certificate}",
        f"--etcd-certfile={etcd_certificate}",
        f"--etcd-keyfile={etcd_key}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={layout.ca_certificate}",
        f"--token-auth-file={layout.pki / 'tokens.csv'}",
        # As on GKE: what a namespace takes is said by its label.
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={layout.pki / 'service-account.key'}",
        f"--kubelet-certificate-authority={layout.ca_certificate}",
        f"--kubelet-client-certificate={kubelet_certificate}",
        f"--kubelet-client-key={kubelet_key}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        *_ways_to_pods(layout),
        # Other users of this machine reach the port: they learn nothing, not even its version.
        "--anonymous-auth=false",
        "--profiling=false",
        "--v=1",
    )
    probe = Probe(layout.ports.apiserver, "/readyz", layout.ca_certificate, _pair(layout, "admin"))
    return Service("kube-apiserver", argv, (probe,), ("etcd",), SMALL)


def _ways_to_pods(layout: Layout) -> tuple[str, ...]:
    """Return flags by which the API server asks webhooks that are pods: their endpoints, by way of the kubelet."""
    if not layout.config.installs_controllers:
        return ()
    cluster = {
        "name": "cluster",
        "connection": {
            "proxyProtocol": "HTTPConnect",
            "transport": {"uds": {"udsName": str(layout.socket(EGRESS))}},
        },
    }
    config = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [cluster],
    }
    file = _write(layout, "egress.json", config)
    return (f"--egress-selector-config-file={file}", "--enable-aggregator-routing=true")


def _controller_manager(layout: Layout, binary: Path) -> Service:
    certificate, key = _pair(layout, "controller-manager")
    kubeconfig = layout.run / "controller-manager.kubeconfig"
    argv = (
        str(binary),
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.controller_manager}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        f"--root-ca-file={layout.ca_certificate}",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
        *_closed(layout),
        "--profiling=false",
        "--v=1",
    )
    probe = Probe(layout.ports.controller_manager, "/healthz", layout.ca_certificate, _pair(layout, "admin"))
    # Its garbage collector looks for new types at its start and then every 30 s: until then nothing goes with a JobSet.
    return Service("kube-controller-manager", argv, (probe,), (BOOTSTRAP,), SMALL)


def _closed(layout: Layout) -> tuple[str, ...]:
    """Return flags by which a component's port answers nobody without a certificate, of its health neither."""
    return (f"--client-ca-file={layout.ca_certificate}", "--authorization-always-allow-paths=/none")


def _scheduler(layout: Layout, binary: Path) -> Service:
    certificate, key = _pair(layout, "scheduler")
    kubeconfig = layout.run / "scheduler.kubeconfig"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": _BURST},
        "leaderElection": {"leaderElect": False},
        # A pod waits for a node that comes within seconds; the default lets it sleep for up to ten.
        "podMaxBackoffSeconds": 2,
    }
    argv = (
        str(binary),
        f"--config={_write(layout, 'scheduler.json', config)}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.scheduler}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *_closed(layout),
        "--v=1",
    )
    probe = Probe(layout.ports.scheduler, "/healthz", layout.ca_certificate, _pair(layout, "admin"))
    return Service("kube-scheduler", argv, (probe,), ("kube-apiserver",), SMALL)


def _jobset(layout: Layout, binary: Path) -> Service:
    # Fields: sigs.k8s.io/jobset/api/config/v1alpha1 Configuration.
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {
            "host": LOOPBACK,
            "port": layout.ports.jobset_webhook,
            "certDir": str(layout.pki / "jobset-webhook"),
        },
        # Nobody reads them, and everybody of this machine could.
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        "clientConnection": {"qps": _QPS, "burst": _BURST},
    }
    argv = (
        str(binary),
        f"--config={_write(layout, 'jobset.json', config)}",
        f"--kubeconfig={layout.admin_kubeconfig}",
        "--zap-devel=false",
        "--zap-log-level=info",
    )
    # It listens before it knows its webhooks: until then every JobSet would be refused with a 404.
    probe = Probe(layout.ports.jobset_webhook, "/mutate-jobset-x-k8s-io-v1alpha2-jobset", layout.ca_certificate)
    return Service("jobset", argv, (probe,), (BOOTSTRAP,), SMALL)


def _write(layout: Layout, name: str, config: dict[str, Any]) -> Path:
    path = layout.run / name
    write_private(path, json.dumps(config, indent=2) + "\n")
    return path
