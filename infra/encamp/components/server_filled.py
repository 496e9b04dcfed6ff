"""Fields of node pools that GKE fills in on machines with local disks of their own."""

from __future__ import annotations

from typing import Final

#: Paths that the provider compares with a program that does not state them, and replaces the pool for
#: (belief ``gke-fills-local-disks-of-pools``): without this the next ``up`` takes down the machines of a running job.
SERVER_FILLED: Final = (
    "nodeConfig.ephemeralStorageLocalSsdConfig",
    "nodeConfig.gvnic",
    "nodeConfig.localNvmeSsdBlockConfig",
)
