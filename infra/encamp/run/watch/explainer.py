"""Explanations of replicas that do not start: new ones at once, lasting ones every five minutes with their duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.duration import Duration
from encamp.run.logs.replicas import read_replica
from encamp.run.watch.pending import Wait, waiting
from encamp.run.watch.queued import queue_words, waits_in_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.cloud.kubernetes import Cluster

_EXPLAIN_SECONDS = 3.0
_REPEAT_SECONDS = 300.0


class Explainer:
    """The explainer of one job.

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
        #: Since when each sentence is true, and when it was said last.
        self._said: dict[str, tuple[float, float]] = {}

    def explain(self, job_sets: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]]) -> None:
        """Explain what replicas wait for, if any do; of several in a queue, the first one's reason.

        Raises:
            EngineError: the API server gives no answer.
        """
        if self._clock() - self._explained < _EXPLAIN_SECONDS:
            return
        pending = [pod for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
        queued = next((job_set for job_set in job_sets if waits_in_queue(job_set)), None)
        if not pending and queued is None:
            self._said = {}
            return
        self._explained = self._clock()
        if queued is not None:
            self._say({line: line for line in queue_words(self._cluster, queued)})
        else:
            self._say({str(wait): wait.in_full for wait in self._waits_of(pending)})

    def _say(self, lines: Mapping[str, str]) -> None:
        """Show each sentence when it is new, and in full when it has been true for long."""
        now = self._clock()
        said: dict[str, tuple[float, float]] = {}
        for line, in_full in lines.items():
            since, last = self._said.get(line, (now, now))
            if line not in self._said:
                self._show(line)
            elif now - last >= _REPEAT_SECONDS:
                self._show(f"still, for {Duration.of(round(now - since)).words}: {in_full}")
                last = now
            said[line] = since, last
        self._said = said

    def _waits_of(self, pending: Sequence[dict[str, Any]]) -> list[Wait]:
        events = self._cluster.list("events", self._namespace, fields="involvedObject.kind=Pod")
        return waiting(pending, events, self._pools(), _name_of, self._allocatable)


def _name_of(pod: dict[str, Any]) -> str:
    replica = read_replica(pod)
    return replica.name if replica is not None else str(pod["metadata"]["name"])
