"""The outputs of stacks as the engine keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


@dataclass(frozen=True)
class StackOutputs:
    """The outputs of a job's stack: with plain ``pulumi up`` they are the intent."""

    job_id: str
    name: str
    namespace: str
    job_set: str
    artifacts_bucket: str
    prefix: str
    labels: dict[str, str]
    deadline: float
    node_pools: tuple[str, ...]
    shared_pools: tuple[str, ...]
    packages: tuple[str, ...]
    machines: dict[str, str]
    hourly: dict[str, float]
    prices_of: str | None
    buckets: tuple[str, ...]
    job_dir: str | None
    results_bucket: str | None
    results_days: int | None
    replicas: tuple[str, ...]
    given_account: str | None
    max_running_seconds: float | None
    max_wait_seconds: float | None
    study: dict[str, Any] | None
    notices: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, outputs: dict[str, Any]) -> StackOutputs | None:
        """Return the outputs from a stack's data, or from a job's facts with its deadline.

        None if they are no job's.
        """
        if "jobId" not in outputs or "jobSet" not in outputs:
            return None
        return cls(
            job_id=outputs["jobId"],
            name=outputs["name"],
            namespace=outputs["namespace"],
            job_set=outputs["jobSet"],
            artifacts_bucket=outputs["artifactsBucket"],
            prefix=outputs["prefix"],
            labels=dict(outputs["labels"]),
            deadline=float(outputs["deadline"]),
            node_pools=tuple(outputs.get("nodePools") or ()),
            shared_pools=tuple(outputs.get("sharedPools") or ()),
            packages=tuple(outputs.get("packages") or ()),
            machines=dict(outputs.get("machines") or {}),
            hourly=dict(outputs.get("hourly") or {}),
            prices_of=outputs.get("pricesOf"),
            buckets=tuple(outputs.get("grantedBuckets") or ()),
            job_dir=outputs.get("jobDir"),
            results_bucket=outputs.get("resultsBucket"),
            results_days=int(outputs["resultsDays"]) if outputs.get("resultsDays") else None,
            replicas=tuple(outputs.get("replicas") or ()),
            given_account=outputs.get("givenAccount"),
            max_running_seconds=outputs.get("maxRunningSeconds"),
            max_wait_seconds=outputs.get("maxWaitSeconds"),
            study=outputs.get("study"),
            notices=tuple(outputs.get("notices") or ()),
        )
