"""The environment whose jobs are reaped: what it owns, and how its cluster is reached when little of it is left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.gke_kubeconfig import gke_kubeconfig
from encamp.cloud.kubernetes import Cluster
from encamp.cloud.resources import Container
from encamp.errors import EncampError, EngineError
from encamp.own_cluster import own_kubeconfig
from encamp.plan.job import environment_labels
from encamp.project import project_folder
from encamp.run.store.outputs import EnvironmentOutputs
from encamp.spec.environment import SANDBOX_PREFIX, load_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.cloud.rest import GoogleClient
    from encamp.run.history.context import Context


@dataclass(frozen=True)
class Target:
    """One environment.

    Attributes:
        stack: name of its stack.
        labels: owner and environment as everything of its jobs carries them; what carries others is somebody else's.
        outputs: as its stack has them; where that is not up, as its spec says, without a kubeconfig.
        alone: no driver can be at work on its jobs that the record here does not know.
    """

    stack: str
    labels: Mapping[str, str]
    outputs: EnvironmentOutputs
    alone: bool

    def owns(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels are those of a job of this environment and owner."""
        return all((labels or {}).get(key) == value for key, value in self.labels.items())


def find_target(context: Context, stack: str, *, quiet: bool = False) -> Target:
    """The environment of a stack, also of one that is not up any more, which is said unless ``quiet``.

    Raises:
        UsageError: there is no such environment.
        SpecError: its config is wrong.
    """
    spec = load_environment(stack, project_folder())
    try:
        outputs = context.environment(stack)
    except EncampError as error:
        if not quiet:
            context.show(f"{error.what}; its jobs are looked for where it was")
        outputs = EnvironmentOutputs("", spec.cluster, spec.region, spec.project, spec.artifacts_bucket, spec.namespace)
    alone = spec.project.startswith(SANDBOX_PREFIX) or shared_record()
    return Target(stack, environment_labels(spec), outputs, alone)


def shared_record() -> bool:
    """Whether the record is one that every machine's drivers write to."""
    url = os.environ.get("ENCAMP_RECORD_URL") or "sqlite:"
    return not url.startswith("sqlite")


def open_cluster(client: GoogleClient, outputs: EnvironmentOutputs, path: str) -> Cluster | None:
    """The API server of the cluster ``projects/P/locations/L/clusters/C``; None where Google lists no such cluster.

    Raises:
        EngineError: nobody can tell.
    """
    own = own_kubeconfig(path)
    if own is not None:
        return Cluster(own)
    if outputs.kubeconfig and outputs.cluster_path == path:
        return Cluster(outputs.kubeconfig)
    found = Container(client).cluster(path)
    if found is None:
        return None
    return Cluster(_kubeconfig(found, path))


def is_gone(client: GoogleClient, path: str) -> bool:
    """Whether a cluster that gives no answer is none any more.

    Raises:
        EngineError: Google cannot be asked.
    """
    return Container(client).cluster(path) is None


def _kubeconfig(cluster: dict[str, Any], path: str) -> str:
    name = (cluster.get("controlPlaneEndpointsConfig") or {}).get("dnsEndpointConfig") or {}
    if name.get("allowExternalTraffic") and name.get("endpoint"):
        return gke_kubeconfig(path.rpartition("/")[2], name["endpoint"], None)
    try:
        return gke_kubeconfig(
            path.rpartition("/")[2], cluster["endpoint"], cluster["masterAuth"]["clusterCaCertificate"]
        )
    except KeyError as error:
        raise EngineError("the cluster has no address yet", where=path, hint="run `encamp reap` later") from error
