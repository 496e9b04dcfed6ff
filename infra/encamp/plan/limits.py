"""Time limits and restarts of a job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from encamp.plan.model import LimitsPlan

if TYPE_CHECKING:
    from encamp.plan.job_queue import JobQueuePlan
    from encamp.spec.training import Scheduling

#: Default of scheduling.maxRunningTime: 7 days.
DEFAULT_RUNNING_SECONDS = 604_800
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
    running = seconds(scheduling.max_running_time if scheduling else None)
    wait = seconds(scheduling.max_wait_time if scheduling else None)
    longest = running if running is not None else DEFAULT_RUNNING_SECONDS
    in_queue = (wait if wait is not None else queue.wait_seconds) if queue is not None else None
    return LimitsPlan(
        max_running_time_seconds=longest,
        max_wait_time_seconds=wait if wait is not None else in_queue,
        queue_seconds=in_queue or 0,
        max_restarts=MAX_RESTARTS,
        max_replica_restarts=MAX_REPLICA_RESTARTS,
        active_deadline_seconds=longest + (wait if wait is not None else PREPARING_ALLOWANCE_SECONDS),
    )


def node_run_duration_seconds(planned: LimitsPlan) -> int:
    """Return seconds after which a node of the job ends by itself, whatever else failed to end it."""
    return min(planned.deadline_seconds, LONGEST_NODE_SECONDS)


def seconds(duration: str | None) -> int | None:
    """Return whole seconds of a checked duration such as ``3.5s``, rounded up; None of none."""
    return None if duration is None else math.ceil(float(duration.removesuffix("s")))
