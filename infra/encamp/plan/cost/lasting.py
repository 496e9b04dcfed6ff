"""How long a job's machines may exist without a driver or reaper: until the last of the cluster's own limits.

A deadline of its Jobs ends every attempt, but a restart of the whole job makes new Jobs whose deadline begins anew. The
attempts are bounded by their number and, where a replica has the bootstrap, by the deadline of the whole job, after
which no replica starts. After the last attempt the autoscaler removes the machines: that is in the allowance for
tear-down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.model import TEARDOWN_ALLOWANCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp.plan.manifests.containers import Container
    from encamp.plan.model import LimitsPlan
    from encamp.spec.training import Scheduling


@dataclass(frozen=True)
class Lasting:
    """The bounds of a job's attempts.

    Attributes:
        keeps_deadline: some replica refuses to start after the deadline, which ends the job.
        restarts_for_machines: a machine that is taken away restarts the whole job, uncounted.
    """

    keeps_deadline: bool
    restarts_for_machines: bool

    @property
    def ends_by_itself(self) -> bool:
        """Whether the cluster ends the job also when machines are taken away again and again."""
        return self.keeps_deadline or not self.restarts_for_machines

    def worst_seconds(self, limits: LimitsPlan) -> int:
        """Return seconds from the first machine to the last one's end. Without a bound, as many attempts as count."""
        attempt = limits.active_deadline_seconds
        last_start = limits.max_restarts * attempt
        if self.keeps_deadline and self.restarts_for_machines:
            last_start = limits.expiry_seconds
        elif self.keeps_deadline:
            # A job that waits for nothing in its queue has this time left for restarts.
            last_start = min(last_start, limits.expiry_seconds)
        return last_start + attempt + TEARDOWN_ALLOWANCE_SECONDS


def lasting(containers: Iterable[Container], scheduling: Scheduling | None) -> Lasting:
    """Return the bounds of a job's attempts, from its containers and its scheduling."""
    return Lasting(
        keeps_deadline=any(container.interpreter is not None for container in containers),
        restarts_for_machines=bool(scheduling and scheduling.resilient_to_worker_restart),
    )
