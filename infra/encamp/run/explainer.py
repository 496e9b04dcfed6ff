"""Says why replicas do not start: at most every few seconds, and only what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.run.pending import waiting
from encamp.run.queued import queue_words, waits_in_queue
from encamp.run.replicas import read_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster

_EXPLAIN_SECONDS = 3.0


class Explainer:
    """Of one job.

    Args:
        show: gets a line for people.
        pools: the cluster's node pools as GKE's API lists them.
        allocatable: what a machine type leaves to pods, see ``pending.waiting``.
        clock: seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        show: Callable[[str], None],
        pools: Callable[[], Sequence[dict[str, Any]]],
        allocatable: Callable[[str], Mapping[str, float]] | None,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._show = show
        self._pools = pools
        self._allocatable = allocatable
        self._clock = clock
        self._explained = 0.0
        self._said: list[str] = []

    def explain(self, job_sets: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]]) -> None:
        """Say what they wait for, if any does; of several that wait in a queue, what the first one waits for.

        Raises:
            EngineError: the API server gives no answer.
        """
        if self._clock() - self._explained < _EXPLAIN_SECONDS:
            return
        pending = [pod for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
        queued = next((job_set for job_set in job_sets if waits_in_queue(job_set)), None)
        if not pending and queued is None:
            self._said = []
            return
        self._explained = self._clock()
        words = queue_words(self._cluster, queued) if queued is not None else self._words_of_pods(pending)
        if words != self._said:
            self._said = words
            for line in words:
                self._show(line)

    def _words_of_pods(self, pending: Sequence[dict[str, Any]]) -> list[str]:
        events = self._cluster.list("events", self._namespace, fields="involvedObject.kind=Pod")
        return waiting(pending, events, self._pools(), _name_of, self._allocatable)


def _name_of(pod: dict[str, Any]) -> str:
    replica = read_replica(pod)
    return replica.name if replica is not None else str(pod["metadata"]["name"])
