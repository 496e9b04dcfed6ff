"""The inputs of probes: an environment that is up, a job that has ended, or what is left after the environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.answers import NotAskedError
from encamp.acceptance.watcher import NODES, PODS, POOL_LABEL, SYSTEM_PODS
from encamp.cloud.resources import Container

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from encamp.acceptance.ladder import Rung
    from encamp.acceptance.sightings import Sightings
    from encamp.ci.preview import Previewed
    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.plan.model import EnvironmentPlan, JobPlan, NodePoolPlan
    from encamp.run.store.outputs import EnvironmentOutputs
    from encamp.run.store.states import State
    from encamp.spec.environment import EnvironmentSpec

#: Begins the line by which the ladder's trainer says what it sees from inside its pod.
INSIDE: Final = "encamp-acceptance: "


@dataclass(frozen=True)
class EnvironmentCase:
    """An environment that is up.

    Attributes:
        bucket: a bucket of the run's own that probes may do anything to; None if none could be made.
        operations: GKE's operations on the cluster.
        previews: ``again`` of an environment that nothing has changed, and ``refreshed`` against the cloud.
        made_here: this run brought the environment up.
    """

    spec: EnvironmentSpec
    plan: EnvironmentPlan
    outputs: EnvironmentOutputs
    client: GoogleClient
    cluster: Cluster
    bucket: str | None = None
    operations: tuple[Mapping[str, Any], ...] = ()
    previews: Mapping[str, Previewed] = field(default_factory=dict)
    made_here: bool = False

    @property
    def scratch(self) -> str:
        """The bucket that probes may do anything to.

        Raises:
            NotAskedError: there is none.
        """
        if self.bucket is None:
            raise NotAskedError("no bucket could be made to ask with")
        return self.bucket

    @cached_property
    def gke(self) -> Mapping[str, Any]:
        """The cluster as GKE's API shows it.

        Raises:
            NotAskedError: GKE lists no such cluster.
        """
        found = Container(self.client).cluster(self.outputs.cluster_path)
        if found is None:
            raise NotAskedError(f"GKE lists no cluster {self.outputs.cluster_path}")
        return found


@dataclass(frozen=True)
class JobCase:
    """A rung's job that has ended.

    Attributes:
        environment: where it ran.
        state: how it ended.
        times: when each state began.
        sightings: what was seen of it while it lived.
        refused: kinds of objects that could not be looked at, and why.
        receipt: None if it has none.
        logs: each replica's stored log.
        operations: GKE's operations on its node pools.
        lines: its lines in Cloud Logging, as entries.
        preview: of its stack while it ran; None if the rung is not previewed.
        swept: what was deleted because Google listed it after the engine had destroyed everything.
    """

    rung: Rung
    environment: EnvironmentSpec
    plan: JobPlan
    outputs: EnvironmentOutputs
    client: GoogleClient
    state: State
    times: Mapping[State, datetime]
    sightings: Sightings
    refused: Mapping[str, str]
    receipt: Mapping[str, Any] | None
    logs: Mapping[str, str]
    operations: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[Mapping[str, Any], ...] = ()
    preview: Previewed | None = None
    swept: tuple[str, ...] = ()

    def seen(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the last version of each object of a kind.

        Raises:
            NotAskedError: none was seen; says why where that is known.
        """
        found = self.sightings.latest(kind)
        if not found:
            raise NotAskedError(self.refused.get(kind) or f"no {kind} were seen")
        return found

    def nodes(self) -> Iterator[tuple[Mapping[str, Any], NodePoolPlan]]:
        """Yield each machine that was seen ready, with its pool's plan.

        Raises:
            NotAskedError: none was seen.
        """
        pools = {pool.name: pool for pool in self.plan.node_pools}
        found = [ready for versions in self._versions(NODES) if (ready := _ready(versions)) is not None]
        if not found:
            raise NotAskedError(self.refused.get(NODES) or "no machine was seen ready")
        for node in found:
            yield node, pools.get(node["metadata"]["labels"].get(POOL_LABEL, ""), self.plan.node_pools[0])

    def system_pods(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return pods of GKE's own and of the cluster's that were seen on a machine.

        Raises:
            NotAskedError: none was seen.
        """
        name = node["metadata"]["name"]
        found = [pod for pod in self.sightings.latest(SYSTEM_PODS) if pod["spec"].get("nodeName") == name]
        if not found:
            raise NotAskedError(self.refused.get(SYSTEM_PODS) or f"no pod of GKE's own was seen on {name}")
        return found

    def inside(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield what each replica's trainer saw from inside its pod.

        Raises:
            NotAskedError: no replica said anything.
        """
        found = [
            (replica, json.loads(line.removeprefix(INSIDE)))
            for replica, log in self.logs.items()
            for line in log.splitlines()
            if line.startswith(INSIDE)
        ]
        if not found:
            raise NotAskedError("no replica's log says what it saw")
        yield from found

    def replica_pods(self) -> list[Mapping[str, Any]]:
        """Return the job's own pods.

        Raises:
            NotAskedError: none was seen.
        """
        return self.seen(PODS)

    def _versions(self, kind: str) -> Iterator[list[Mapping[str, Any]]]:
        for _, versions in self.sightings.versions(kind):
            yield [one.item for one in versions]


@dataclass(frozen=True)
class EndCase:
    """Google's listings after everything was taken down.

    Attributes:
        left: what is still listed of the run, by kind.
        unknown: kinds that could not be listed, and why.
        environment_gone: the environment was taken down by this run.
        operations: GKE's operations on the cluster that was taken down.
    """

    left: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, str]
    environment_gone: bool
    operations: tuple[Mapping[str, Any], ...] = ()


def condition(item: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of an object's status, empty if it has none of that type."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), {})


def _ready(versions: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the last version of a node that was ready."""
    return next((one for one in reversed(versions) if condition(one, "Ready").get("status") == "True"), None)
