"""Restarts of failed replicas, as on the cluster (section 6 of the job model), and their limits."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.plan.manifests.failure_policy import EQUAL_ENDS, SOON_SECONDS, Consequence, consequence

if TYPE_CHECKING:
    from encamp.process import ProcessOutcome
    from encamp.run.local.model import LocalRunOptions

_KERNEL_COUNTERS = Path("/proc/vmstat")


class Restarts:
    """The restarts of one run.

    Attributes:
        jobs: how often the whole job was started again.
    """

    def __init__(self, options: LocalRunOptions) -> None:
        self._options = options
        self._replicas: Counter[str] = Counter()
        self._alike: dict[str, tuple[int, int]] = {}
        self._memory_kills = memory_kills()
        self.jobs = 0

    def after(self, replica: str, outcome: ProcessOutcome) -> Consequence:
        """Return the consequence of a replica's failure; a restart that it calls for is counted."""
        options = self._options
        if self._out_of_memory(outcome):
            return Consequence.JOB_FAILS
        alike = self._count_alike(replica, outcome)
        found = consequence(outcome.code, custom_container=options.custom_container, whole_job=options.restart_all)
        if found is Consequence.REPLICA_AGAIN:
            if self._replicas[replica] < options.max_replica_restarts:
                self._replicas[replica] += 1
                return found
            if alike >= EQUAL_ENDS:
                return Consequence.JOB_FAILS
            found = Consequence.JOB_AGAIN
        if found is Consequence.JOB_AGAIN:
            if self.jobs < options.max_restarts:
                self.jobs += 1
                self._replicas.clear()
                return found
            found = Consequence.JOB_FAILS
        return found

    def told(self, replica: str) -> str:
        """Return the restarts of a replica in words: how many, of how many."""
        return f"{self._replicas[replica]} of {self._options.max_replica_restarts}"

    def _count_alike(self, replica: str, outcome: ProcessOutcome) -> int:
        """Return how many times in a row the replica has ended with this code soon after its start."""
        code, count = self._alike.get(replica, (outcome.code, 0))
        soon = (outcome.ended_at - outcome.started_at).total_seconds() <= SOON_SECONDS
        count = 0 if not soon else count + 1 if code == outcome.code else 1
        self._alike[replica] = outcome.code, count
        return count

    def _out_of_memory(self, outcome: ProcessOutcome) -> bool:
        """Whether this was the kernel for lack of memory: it would come to the same again."""
        kills = memory_kills()
        more, self._memory_kills = kills > self._memory_kills, kills
        return more and outcome.code == 128 + signal.SIGKILL


def memory_kills() -> int:
    """Return the number of processes of this machine that the kernel killed for lack of memory.

    0 if it does not say.
    """
    try:
        for line in _KERNEL_COUNTERS.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
