"""The choice of a job's supervision: of its one JobSet, or of the trials of its study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.run.studies.supervisor import StudySupervisor, Supervised
from encamp.run.watch.supervise import Limits, Supervision, Supervisor, Watch

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from encamp.run.history.context import Context
    from encamp.run.logs.replicas import Replica
    from encamp.run.store.states import State


def watching(
    context: Context, cluster: str, *, entered: Callable[[State], None], used: Callable[[Iterable[Replica]], None]
) -> Watch:
    """Return the callbacks for what is seen of a job in ``projects/P/locations/L/clusters/C``."""
    return Watch(context.show, entered, context.pools(cluster), context.allocatable, used)


def supervision(
    job: Supervised,
    watch: Watch,
    cancelled: threading.Event,
    *,
    begins: bool = True,
    running_since: float | None = None,
    begun: float | None = None,
) -> Supervision:
    """Return the training of a job.

    Args:
        job: with its cluster, and where what is seen of it goes.
        watch: what is done with what is seen.
        cancelled: set when the job is to be cancelled.
        begins: whether trials of a study may be begun.
        running_since: seconds since the epoch when RUNNING began, for a job that is adopted.
        begun: since when the job waits for its machines; now, where it is not adopted.
    """
    intent = job.intent
    limits = Limits(intent.max_running_seconds, intent.max_wait_seconds, len(intent.replicas))
    if intent.study is not None:
        return StudySupervisor(
            job,
            limits=limits,
            watch=watch,
            cancelled=cancelled,
            begins=begins,
            running_since=running_since,
            begun=begun,
        )
    return Supervisor(
        job.cluster,
        intent.namespace,
        intent.name,
        limits=limits,
        streams=job.streams,
        watch=watch,
        cancelled=cancelled,
        running_since=running_since,
        begun=begun,
    )
