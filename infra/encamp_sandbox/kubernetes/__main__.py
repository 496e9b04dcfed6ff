"""``python -m encamp_sandbox.kubernetes``: the provider's process; the sandbox's folder is in ENCAMP_SANDBOX_DIR."""

from __future__ import annotations

from encamp_sandbox.kubernetes.own_cluster import own_cluster
from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.kubernetes.struck import FrontFaults
from encamp_sandbox.layout import Layout
from encamp_sandbox.provider import run_provider

if __name__ == "__main__":
    layout = Layout.open()
    provider = KubernetesProvider(own_cluster(layout), FrontFaults(layout))
    run_provider(provider, layout.ports.kubernetes_provider, layout.socket_folder("kubernetes-provider"))
