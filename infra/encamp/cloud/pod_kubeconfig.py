"""A kubeconfig of the cluster that this process is a pod of: its API server, and the pod's own account."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Folder in which every pod finds its account's token and the CA certificate.
#: Source: kubernetes.io/docs/tasks/run-application/access-api-from-pod
ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_pod(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod of some cluster."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def pod_kubeconfig(environ: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER) -> str:
    """Return a kubeconfig as JSON. It holds no secret: the token is read from its file whenever one is sent.

    Raises:
        EngineError: this process is no pod, or has no token of its account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    token, trust = folder / "token", folder / "ca.crt"
    if not host or not port or not token.is_file() or not trust.is_file():
        raise EngineError(
            "this process has no account of a cluster",
            where=str(folder),
            hint="leave --in-cluster out, or run it in a pod whose account's token is mounted",
        )
    name = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{name}:{port}", "certificate-authority": str(trust)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "own", "cluster": cluster}],
            "users": [{"name": "own", "user": {"tokenFile": str(token)}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
            "current-context": "own",
        }
    )
