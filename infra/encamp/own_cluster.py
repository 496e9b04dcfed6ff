"""Whether this process is a pod of a cluster, which then reaches it by the cluster's own address.

That address is open to every pod, whoever may reach the API server from outside.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp.cloud.pod_kubeconfig import ACCOUNT_FOLDER, pod_kubeconfig
from encamp.plan.environment.in_cluster import OWN_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def own_kubeconfig(cluster: str, environ: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER) -> str | None:
    """Return the kubeconfig of a pod in this cluster, ``projects/P/locations/L/clusters/C``; None elsewhere.

    Raises:
        EngineError: this process is said to be such a pod, and has no token of its account.
    """
    return pod_kubeconfig(environ, folder) if environ.get(OWN_CLUSTER) == cluster else None
