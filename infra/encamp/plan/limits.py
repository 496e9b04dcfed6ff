"""Time limits and restarts of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.duration import Duration, seconds_of
from encamp.plan.model import LimitsPlan
from encamp.spec.training import Scheduling

if TYPE_CHECKING:
    from encamp.plan.job_queue import JobQueuePlan

#: Retries of the whole job before it is FAILED.
MAX_RESTARTS = 3
#: Restarts of one replica before the whole job is retried.
MAX_REPLICA_RESTARTS = 5
#: Seconds that the cluster's own deadline grants beyond the running time for nodes and images if no wait is limited.
PREPARING_ALLOWANCE_SECONDS = 3600
#: Compute Engine's longest run duration of a machine: 120 days.
LONGEST_NODE_SECONDS = 120 * 86_400


def limits(scheduling: Scheduling | None, queue: JobQueuePlan | None = None) -> LimitsPlan:
    """Return the limits of a job; fractions of a second are rounded up.

    The running time is counted from RUNNING, which the cluster does not know, so its deadline is later by the time that
    getting there may take. A wait in a queue comes before all that, and ends by the queue's limit where the job says
    none.
    """
    scheduling = scheduling or Scheduling()
    longest: int = scheduling.or_default("max_running_time").seconds
    wait = seconds_of(scheduling.max_wait_time)
    in_queue = (wait if wait is not None else queue.wait_seconds) if queue is not None else None
    waits = wait if wait is not None else in_queue
    return LimitsPlan(
        max_running_time=Duration.of(longest),
        max_wait_time=Duration.of(waits) if waits is not None else None,
        queue_seconds=in_queue or 0,
        max_restarts=MAX_RESTARTS,
        max_replica_restarts=MAX_REPLICA_RESTARTS,
        active_deadline_seconds=longest + (wait if wait is not None else PREPARING_ALLOWANCE_SECONDS),
    )


def node_run_duration_seconds(planned: LimitsPlan) -> int:
    """Return seconds after which a node of the job ends by itself, whatever else failed to end it."""
    return min(planned.deadline_seconds, LONGEST_NODE_SECONDS)
