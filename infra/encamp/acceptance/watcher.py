"""Looks at a rung's job while it lives: nodes, pods, events, queue and pools, every few seconds.

What it sees goes to ``Sightings``; it changes nothing of the job's. A look that is refused is noted and left out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.sightings import identity
from encamp.errors import EncampError
from encamp.plan.model import JOB_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from encamp.acceptance.sightings import Sightings
    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.resources import Container
    from encamp.plan.model import JobPlan

POOL_LABEL: Final = "cloud.google.com/gke-nodepool"
#: Kinds of sightings.
NODES, PODS, SYSTEM_PODS, JOB_SETS, WORKLOADS = "nodes", "pods", "system pods", "jobsets", "workloads"
EVENTS, NODE_EVENTS, LEASES, POOLS = "events", "events of nodes", "leases of nodes", "node pools"
#: Namespace of the leases of nodes.
_LEASES: Final = "kube-node-lease"


class JobWatcher:
    """A source of what is seen of one job, see ``run.following``.

    Args:
        plan: the job.
        cluster_path: ``projects/P/locations/L/clusters/C``.
        seconds: shortest time between two looks.
        also: called at each look, first thing.
    """

    def __init__(
        self,
        plan: JobPlan,
        cluster: Cluster,
        container: Container,
        cluster_path: str,
        *,
        sightings: Sightings,
        seconds: float,
        also: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._container = container
        self._path = cluster_path
        self._sightings = sightings
        self._seconds = seconds
        self._also = also
        self._clock = clock
        self._last = 0.0
        self._nodes: set[str] = set()
        #: Kinds that could not be looked at, and why.
        self.refused: dict[str, str] = {}

    def look(self) -> None:
        """Look once, unless the last look was just now."""
        self._also()
        now = self._clock()
        if now - self._last >= self._seconds:
            self._last = now
            self._look(now)

    def end(self) -> None:
        """Look a last time: what is still there after the job's end has not gone with it."""
        self._look(self._clock())

    def _look(self, at: float) -> None:
        for kind, listed in self._listings():
            try:
                found = listed()
            except EncampError as error:
                self.refused[kind] = error.what
            else:
                self._sightings.note(kind, found, at)

    def _listings(self) -> Iterator[tuple[str, Callable[[], Sequence[Mapping[str, Any]]]]]:
        name, namespace = self._plan.name, self._plan.namespace
        selector = f"{POOL_LABEL} in ({','.join(pool.name for pool in self._plan.node_pools)})"
        yield POOLS, self._pools
        yield NODES, lambda: self._named(self._cluster.list("nodes", "", selector))
        yield PODS, lambda: self._cluster.list("pods", namespace, f"{JOB_LABEL}={name}")
        yield SYSTEM_PODS, lambda: [pod for node in sorted(self._nodes) for pod in self._on(node)]
        yield JOB_SETS, lambda: self._cluster.list("jobsets", namespace, f"{JOB_LABEL}={name}")
        yield WORKLOADS, lambda: [one for one in self._cluster.list("workloads", namespace) if self._is_owned(one)]
        yield EVENTS, lambda: [one for one in self._cluster.list("events", namespace) if self._is_about(one)]
        yield NODE_EVENTS, self._node_events
        yield LEASES, self._leases

    def _pools(self) -> list[dict[str, Any]]:
        wanted = {pool.name for pool in self._plan.node_pools}
        return [pool for pool in self._container.node_pools(self._path) if pool["name"] in wanted]

    def _named(self, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._nodes = {node["metadata"]["name"] for node in nodes}
        return nodes

    def _on(self, node: str) -> list[dict[str, Any]]:
        pods = self._cluster.list("pods", "", fields=f"spec.nodeName={node}")
        return [pod for pod in pods if pod["metadata"]["namespace"] != self._plan.namespace]

    def _node_events(self) -> list[dict[str, Any]]:
        events = self._cluster.list("events", "default", fields="involvedObject.kind=Node")
        return [event for event in events if event["involvedObject"]["name"] in self._nodes]

    def _leases(self) -> list[dict[str, Any]]:
        leases = self._cluster.list("leases", _LEASES)
        return [lease for lease in leases if lease["metadata"]["name"] in self._nodes]

    def _is_owned(self, workload: Mapping[str, Any]) -> bool:
        owners = {str(owner.get("uid")) for owner in workload["metadata"].get("ownerReferences") or ()}
        return bool(owners & self._known(JOB_SETS))

    def _is_about(self, event: Mapping[str, Any]) -> bool:
        return str(event["involvedObject"].get("uid")) in self._known(PODS) | self._known(JOB_SETS)

    def _known(self, kind: str) -> set[str]:
        return {identity(item) for item in self._sightings.latest(kind)}
