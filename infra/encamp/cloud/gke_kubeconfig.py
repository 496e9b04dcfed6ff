"""A kubeconfig of a GKE cluster that holds no secret: tokens come from ``gke-gcloud-auth-plugin``."""

from __future__ import annotations

import json


def gke_kubeconfig(cluster: str, endpoint: str, ca_certificate: str | None) -> str:
    """Return a kubeconfig as JSON.

    Args:
        cluster: its name there.
        endpoint: host or host:port.
        ca_certificate: base64 of PEM; None for a DNS name of Google's, whose certificate everybody trusts.
    """
    server = {"server": f"https://{endpoint}"}
    if ca_certificate is not None:
        server["certificate-authority-data"] = ca_certificate
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "gke-gcloud-auth-plugin",
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": server}],
            "users": [{"name": cluster, "user": user}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "current-context": cluster,
        }
    )
