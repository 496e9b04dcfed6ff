"""The ``queues`` block of an environment: each team's quota of machines, and its queue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from encamp.spec.encamp import GpuType, Provisioning, TpuVersion
from encamp.spec.environment.problems import Found
from encamp.spec.environment.shared_pools import LONGEST_MACHINE_DAYS, SharedPoolSpec, shared_pool_problems
from encamp.spec.fields import Flag, Int64, Text, Written
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec
    from encamp.spec.loading import DataPath

#: Names of what has accelerators, as job files write them.
ACCELERATORS = (*GpuType, *TpuVersion)
#: A resource group of Kueue holds no more flavors: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/.
MOST_FLAVORS = 64
#: Kueue's priorities are numbers of 32 bits.
_LARGEST_PRIORITY = 2**31 - 1
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_NAME_MESSAGE = "must be a lowercase letter, then letters, digits and -, at most 40 characters"
_FOR_ALL = (Provisioning.ON_DEMAND, Provisioning.SPOT)


class QuotaSpec(Written):
    """A team's quota of machines of one kind."""

    provisioning: Provisioning = Provisioning.ON_DEMAND
    """How the machines are provisioned: ``ON_DEMAND``, ``SPOT``, ``FLEX_START``, ``QUEUED``, ``RESERVATION``."""
    accelerator: Text | None = None
    """GPU, such as ``NVIDIA_L4``, or generation of TPU, such as ``v5e``; machines without any when absent."""
    count: Int64 | None = None
    """Number of GPUs, or of TPU chips."""
    cpu: Int64 | None = None
    """Number of virtual CPUs; no limit when absent."""
    memory_gib: Int64 | None = None
    """GiB of memory; no limit when absent."""


class TeamQueueSpec(Written):
    """The queue of a team; jobs name it by ``encamp.queue``."""

    quotas: tuple[QuotaSpec, ...] = ()
    """Quotas of its jobs; machines that are not listed are not allowed."""
    borrow: Flag = True
    """Whether its jobs may also use what other teams' quotas leave unused."""


class QueuesSpec(Written):
    """Queues by Kueue: a job's machines come when its team's quota has room for all of them."""

    teams: dict[Text, TeamQueueSpec] | None = None
    """The teams' queues, by name."""
    default: Text | None = None
    """The queue of jobs that name none; they are refused when absent."""
    priorities: dict[Text, Int64] | None = None
    """Names that jobs may give as ``encamp.priority``; the larger number is admitted first."""
    preemption: Literal["never", "lower-priority"] = "never"
    """Whether a job may take machines from running jobs of lower priority, which then wait again from their start."""
    longest_wait_hours: Int64 = 168
    """A job that says no maxWaitTime is cancelled after waiting so long."""
    pools: tuple[SharedPoolSpec, ...] | None = None
    """Node pools that the jobs of all queues share, so that a waiting job has none. When absent: for each quota the
    machines that jobs usually ask for. An empty list: every job brings pools of its own."""
    machine_days: Int64 = 30
    """A machine of the shared pools is ended after so many days, also under a job, which then goes on from its last
    checkpoint; 1 to 120. Jobs that may run longer bring pools of their own."""


def queues_problems(queues: QueuesSpec, environment: EnvironmentSpec) -> Iterator[Found]:  # noqa: ARG001
    """Yield every problem of the block."""
    teams = queues.teams or {}
    if not teams:
        yield Found(("teams",), "is missing: there is no queue", "such as teams: {research: {quotas: [{cpu: 64}]}}")
    for name, team in teams.items():
        yield from _team(("teams", name), name, team)
    if queues.default is not None and queues.default not in teams and teams:
        close = nearest(queues.default, sorted(teams))
        message = f"{queues.default[:60]!r} is no queue of teams"
        yield Found(("default",), message, f"write {close}" if close else f"one of: {', '.join(sorted(teams))}")
    yield from _priorities(queues)
    if queues.longest_wait_hours < 1:
        yield Found(("longest_wait_hours",), f"{queues.longest_wait_hours} must be at least 1")
    kinds = {(quota.provisioning, quota.accelerator) for team in teams.values() for quota in team.quotas}
    yield from _shared_pools(queues, kinds)
    if len(kinds) > MOST_FLAVORS:
        yield Found(("teams",), f"has quotas for {len(kinds)} kinds of machines; Kueue takes {MOST_FLAVORS}")


def _priorities(queues: QueuesSpec) -> Iterator[Found]:
    for name, value in (queues.priorities or {}).items():
        if not _NAME.fullmatch(name):
            yield Found(("priorities", name), f"{name[:60]!r} {_NAME_MESSAGE}")
        if not 0 <= value <= _LARGEST_PRIORITY:
            yield Found(("priorities", name), f"{value} must be 0 to {_LARGEST_PRIORITY}")
    if queues.preemption == "lower-priority" and not queues.priorities:
        message = "lower-priority needs priorities: without them no job has a lower one than another"
        yield Found(("preemption",), message, "such as priorities: {low: 100, high: 1000}")


def _shared_pools(queues: QueuesSpec, kinds: set[tuple[Provisioning, str | None]]) -> Iterator[Found]:
    if not 1 <= queues.machine_days <= LONGEST_MACHINE_DAYS:
        yield Found(("machine_days",), f"{queues.machine_days} must be 1 to {LONGEST_MACHINE_DAYS}")
    for index, pool in enumerate(queues.pools or ()):
        yield from shared_pool_problems(("pools", index), pool, kinds)
        if pool in (queues.pools or ())[:index]:
            yield Found(("pools", index), "stands twice in the list", "remove one")


def _team(at: DataPath, name: str, team: TeamQueueSpec) -> Iterator[Found]:
    if not _NAME.fullmatch(name):
        yield Found(at, f"{name[:60]!r} {_NAME_MESSAGE}")
    if not team.quotas:
        message = "is missing: a team without any quota may run nothing"
        yield Found((*at, "quotas"), message, "such as [{cpu: 64}, {accelerator: NVIDIA_L4, count: 8}]")
    seen: set[tuple[str, str | None]] = set()
    for index, quota in enumerate(team.quotas):
        here = (*at, "quotas", index)
        yield from _quota(here, quota)
        kind = (quota.provisioning, quota.accelerator)
        if kind in seen:
            what = f"{quota.provisioning.value} {quota.accelerator or 'without accelerator'}"
            yield Found(here, f"{what} stands twice in the queue", "write one quota for both")
        seen.add(kind)


def _quota(at: DataPath, quota: QuotaSpec) -> Iterator[Found]:
    for name in ("count", "cpu", "memory_gib"):
        value: int | None = getattr(quota, name)
        if value is not None and value < 0:
            yield Found((*at, name), f"{value} must be 0 or more")
    if quota.accelerator is None:
        if quota.count is not None:
            yield Found((*at, "count"), "is for accelerators, and none is named", "name it by accelerator, or use cpu")
        if quota.provisioning not in _FOR_ALL:
            message = f"{quota.provisioning.value} is for machines with GPUs or TPUs, and none is named"
            yield Found((*at, "provisioning"), message, "name it by accelerator, or choose SPOT or ON_DEMAND")
        return
    if quota.accelerator not in ACCELERATORS:
        close = nearest(quota.accelerator, ACCELERATORS)
        message = f"{quota.accelerator[:60]!r} is no GPU and no generation of TPU"
        yield Found((*at, "accelerator"), message, f"write {close}" if close else "such as NVIDIA_L4 or v5e")
    if quota.count is None:
        yield Found((*at, "count"), "is missing: how many accelerators is not said", "such as 8")


def controllers_problems(choice: str, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield problems with the choice of who installs JobSet and Kueue."""
    if choice == "install" and environment.is_sandbox:
        message = "the sandbox's cluster has them already, and starts Kueue where there are queues"
        yield Found((), message, "leave it out")
