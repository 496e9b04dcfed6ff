"""The queue that a job waits in: its labels for Kueue, and a check for jobs that could never be admitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.environment.queues import (
    CPU,
    FLAVOR_LABEL,
    MEMORY,
    RESOURCES,
    pool_flavor,
    quota_label,
    quota_resource,
)
from encamp.plan.names import queue_object
from encamp.spec.encamp import Provisioning
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from encamp.plan.model import JobPlan, NodePoolPlan, ReplicaGroupPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.queues import QueuesSpec, TeamQueueSpec
    from encamp.spec.job import TrainingJobSpec

#: Kueue's words on a JobSet: https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
LONGEST_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
#: Begins what is passed on to the request for a job's machines.
REQUEST_PREFIX = "provreq.kueue.x-k8s.io/"

_MILLIS = 1000
_GIB_IN_MIB = 1024
_HOUR = 3600


@dataclass(frozen=True)
class JobQueuePlan:
    """The queue of a job.

    Attributes:
        name: of the LocalQueue.
        priority_class: of its WorkloadPriorityClass, None if it has none.
        wait_seconds: how long it may wait.
    """

    name: str
    priority_class: str | None
    wait_seconds: int


def job_queue(job: TrainingJobSpec, environment: EnvironmentSpec) -> JobQueuePlan | None:
    """Return the queue of a job; None in an environment without queues.

    Raises:
        PlanError: there is no such queue or priority, or the job names none if it has to.
    """
    spec, block = environment.queues, job.encamp
    if spec is None:
        for name, value in (("queue", block.queue), ("priority", block.priority)):
            if value is not None:
                raise PlanError(
                    f"the environment {environment.name} has no queues, so the job cannot have {name} {value[:60]!r}",
                    where=f"encamp.{name}",
                    hint="remove it, or choose another environment by --environment",
                )
        return None
    name = block.queue or spec.default
    known = sorted(spec.teams or {})
    if name is None:
        message = f"jobs of the environment {environment.name} wait in a queue, and this one names none"
        raise PlanError(message, where="encamp.queue", hint=f"one of: {', '.join(known)}")
    if name not in known:
        raise PlanError(
            f"the environment {environment.name} has no queue {name[:60]!r}",
            where="encamp.queue",
            hint=_nearest(name, known),
        )
    return JobQueuePlan(name, _priority(job, environment, spec), spec.longest_wait_hours * _HOUR)


def _priority(job: TrainingJobSpec, environment: EnvironmentSpec, spec: QueuesSpec) -> str | None:
    """Return the job's class: the one it names, else the highest that its scheduling.priority reaches."""
    classes = spec.priorities or {}
    named = job.encamp.priority
    if named is not None:
        if named not in classes:
            raise PlanError(
                f"the environment {environment.name} has no priority {named[:60]!r}",
                where="encamp.priority",
                hint=_nearest(named, sorted(classes)) if classes else "remove it: its queues have no priorities",
            )
        return queue_object(environment.name, named)
    scheduling = job.training_input.scheduling
    asked = scheduling.priority if scheduling is not None else None
    reached = [name for name, value in classes.items() if asked is not None and value <= asked]
    return queue_object(environment.name, max(reached, key=lambda name: (classes[name], name))) if reached else None


def _nearest(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    return f"write {close}" if close else f"one of: {', '.join(known)}"


def flavored(pools: tuple[NodePoolPlan, ...], queue: JobQueuePlan | None) -> tuple[NodePoolPlan, ...]:
    """Return the pools of a job, their nodes labelled with their kind where it waits in a queue."""
    if queue is None:
        return pools
    return tuple(replace(pool, labels={**pool.labels, FLAVOR_LABEL: pool_flavor(pool)}) for pool in pools)


def asks_for_machines(plan: JobPlan, pool: NodePoolPlan) -> bool:
    """Whether the job itself asks for a pool's machines all at once; in a queue Kueue does."""
    return plan.queue is None and pool.provisioning == Provisioning.QUEUED.value


def queue_labels(plan: JobPlan) -> Mapping[str, str]:
    """Return a JobSet's labels for Kueue; empty if the job waits in no queue."""
    if plan.queue is None:
        return {}
    priority = {PRIORITY_LABEL: plan.queue.priority_class} if plan.queue.priority_class is not None else {}
    return {QUEUE_LABEL: plan.queue.name, **priority, LONGEST_LABEL: str(plan.limits.deadline_seconds)}


def queue_annotations(plan: JobPlan) -> Mapping[str, str]:
    """Return Kueue's annotations for its request to GKE for a job's machines; empty if there is none."""
    queued = [pool for pool in plan.node_pools if pool.provisioning == Provisioning.QUEUED.value]
    if plan.queue is None or not queued:
        return {}
    longest = max(pool.max_run_duration_seconds for pool in queued)
    return {f"{REQUEST_PREFIX}maxRunDurationSeconds": str(longest)}


def check_quotas(
    queue: JobQueuePlan | None,
    groups: Iterable[ReplicaGroupPlan],
    pools: Sequence[NodePoolPlan],
    environment: EnvironmentSpec,
) -> None:
    """Refuse a job that its queue would never let in.

    Raises:
        PlanError: the queue has no quota for a kind of its machines, or less of it than the job needs.
    """
    teams = environment.queues.teams if environment.queues is not None else None
    if queue is None or not teams:
        return
    kinds = {pool.name: pool_flavor(pool) for pool in pools}
    needed: dict[str, dict[str, float]] = {}
    for group in groups:
        amounts = needed.setdefault(kinds[group.node_pool], dict.fromkeys(RESOURCES, 0.0))
        amounts[CPU] += group.count * group.resources.cpu_millis / _MILLIS
        amounts[MEMORY] += group.count * group.resources.memory_mib / _GIB_IN_MIB
        for device, count in group.resources.devices.items():
            amounts[device] += group.count * count
    for kind, amounts in needed.items():
        _check_kind(kind, amounts, queue.name, teams)


def _check_kind(kind: str, needed: Mapping[str, float], name: str, teams: Mapping[str, TeamQueueSpec]) -> None:
    own = [quota for quota in teams[name].quotas if quota_label(quota) == kind]
    if not own:
        has = ", ".join(sorted(map(quota_label, teams[name].quotas)))
        raise PlanError(
            f"the queue {name} has no quota for machines {kind}, which the job needs; it has {has}",
            where="encamp.queue",
            hint=f"choose one of these, or add a quota to queues.teams.{name} of the environment",
        )
    usable = own
    if teams[name].borrow:
        usable = [quota for team in teams.values() for quota in team.quotas if quota_label(quota) == kind]
    limits = {CPU: _sum(each.cpu for each in usable), MEMORY: _sum(each.memory_gib for each in usable)}
    limits[quota_resource(own[0])] = (
        _sum(each.count or 0 for each in usable) if own[0].accelerator is not None else None
    )
    for resource, limit in limits.items():
        if limit is not None and needed[resource] > limit:
            unit = " GiB" if resource == MEMORY else ""
            borrowed = ", what it can borrow included" if teams[name].borrow and len(usable) > 1 else ""
            raise PlanError(
                f"the job needs {needed[resource]:g}{unit} of {resource} on machines {kind} at once; the queue {name} "
                f"has {limit:g}{borrowed}",
                where="encamp.queue",
                hint=f"use fewer or smaller machines, or raise the quota in queues.teams.{name} of the environment",
            )


def _sum(amounts: Iterable[int | None]) -> int | None:
    """Return a sum, None if one of them has no limit."""
    found = list(amounts)
    return None if None in found else sum(each for each in found if each is not None)
