"""The outputs of an environment's stack as the engine keeps them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentOutputs:
    """The outputs of an environment's stack."""

    kubeconfig: str
    cluster: str
    location: str
    project: str
    artifacts_bucket: str
    namespace: str

    @property
    def cluster_path(self) -> str:
        """``projects/P/locations/L/clusters/C``."""
        name = self.cluster.rpartition("/")[2]
        return f"projects/{self.project}/locations/{self.location}/clusters/{name}"
