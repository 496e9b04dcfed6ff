"""The API server of a job that nobody drives, and the job's objects there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.kinds.objects import CONFIG_MAP, JOB_SET
from encamp.run.lifecycle.judging import Seen
from encamp.run.lifecycle.target import is_gone, open_cluster
from encamp.run.watch.watching import ended_at, terminal

if TYPE_CHECKING:
    from encamp.cloud.kubernetes import Cluster
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.target import Target
    from encamp.run.store.intent import Intent


@dataclass(frozen=True)
class Reached:
    """The state of a job in its cluster.

    Attributes:
        cluster: None if it is gone.
        job_set: its JobSet, or the object of its study, or None.
        ended: when the JobSet ended, in seconds since the epoch.
        trouble: why the cluster gives no answer.
    """

    cluster: Cluster | None
    seen: Seen
    job_set: dict[str, Any] | None = None
    ended: float | None = None
    trouble: EngineError | None = None


def reach(context: Context, target: Target, intent: Intent) -> Reached:
    """Ask a job's cluster for its JobSet, or for its study, which ends by what is on record."""
    cluster = open_cluster(context.client, target.outputs, intent.cluster)
    if cluster is None:
        return Reached(None, Seen.NO_CLUSTER)
    try:
        kind = JOB_SET if intent.study is None else CONFIG_MAP
        found = cluster.get(kind.plural, intent.namespace, intent.name)
    except EngineError as error:
        if is_gone(context.client, intent.cluster):
            cluster.close()
            return Reached(None, Seen.NO_CLUSTER)
        return Reached(cluster, Seen.UNKNOWN, trouble=error)
    if found is None:
        return Reached(cluster, Seen.NO_JOB_SET)
    seen = Seen.RUNS if terminal(found) is None else Seen.ENDED
    return Reached(cluster, seen, found, ended_at(found))
