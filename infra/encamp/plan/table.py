"""A plan as plain text for people, in 100 columns where the names allow it."""

from __future__ import annotations

import shlex
from textwrap import wrap
from typing import TYPE_CHECKING

from encamp.plan.cost.text import cost_rows, cost_text
from encamp.plan.declared import held_while_waiting
from encamp.plan.machines.quotas import quotas
from encamp.plan.manifests.containers import compact_json
from encamp.plan.manifests.failure_policy import EQUAL_ENDS, SOON_SECONDS
from encamp.plan.manifests.pod_security import NON_ROOT_ID
from encamp.plan.study_text import parameter_rows, shown_trial, study_lines
from encamp.plan.tf_config import tf_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.cost.model import CostPlan
    from encamp.plan.job_queue import JobQueuePlan
    from encamp.plan.model import Accelerator, Grant, JobPlan, NodePoolPlan, ReplicaGroupPlan
    from encamp.plan.study import StudyPlan

_WIDTH = 100


def job_table(plan: JobPlan, *, full: bool = False) -> str:
    """Return the plan in words and columns.

    Args:
        plan: the plan.
        full: also TF_CONFIG of every replica.
    """
    shown = shown_trial(plan)
    parts = [
        f"Job {plan.job_id} in {plan.region}, environment {plan.environment} (cloud name {plan.name})",
        *([_titled("Study", _study(plan.study))] if plan.study is not None else []),
        _titled(
            "Replicas" if plan.study is None else "Replicas of a trial",
            _columns(("ROLE", "COUNT", "ASKED FOR", "MACHINE", "ACCELERATOR", "MEMORY", "/DEV/SHM"), _replicas(plan)),
        ),
        *(_titled(f"Container of {_whose(shown, group)}", _container(shown, group)) for group in _distinct(shown)),
        _titled(
            "Node pools", _columns(("NAME", "NODES", "MACHINE", "ACCELERATOR", "HOW", "DISK", "ZONE"), _pools(plan))
        ),
        _titled("Identity", [_who(plan), *(_grant(grant) for grant in plan.identity.grants)]),
        _titled("Storage", _storage(plan)),
        _titled("Limits", _limits(plan)),
        _titled("Quotas", _columns(("QUOTA", "REGION", "AMOUNT"), _quotas(plan))),
        *([_titled("Cost", _cost(plan.cost))] if plan.cost is not None else []),
        *([_titled("Notices", [str(one) for one in plan.notices])] if plan.notices else []),
    ]
    if full:
        configs = [
            f"{group.role.value}-{index} {compact_json(tf_config(shown, group, index))}"
            for group in shown.groups
            for index in range(group.count)
        ]
        parts.append(_titled("TF_CONFIG" if plan.study is None else "TF_CONFIG of trial 1", configs))
    if plan.warnings:
        parts.append(_titled("Warnings", [f"! {warning}" for warning in plan.warnings]))
    return "\n\n".join(parts)


def _titled(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _study(study: StudyPlan) -> list[str]:
    return [*study_lines(study), *_columns(("PARAMETER", "TYPE", "VALUES", "SCALE"), list(parameter_rows(study)))]


def _replicas(plan: JobPlan) -> list[tuple[str, ...]]:
    return [
        (
            group.role.value,
            str(group.count),
            f"{group.requested.machine_type}{_with(group.requested.accelerator)}",
            group.machine_type,
            _amount(group.accelerator),
            _gib(group.resources.memory_mib),
            _gib(group.shared_memory_mib),
        )
        for group in plan.groups
    ]


def _gib(mebibytes: int) -> str:
    return f"{mebibytes / 1024:.1f} GiB"


def _distinct(plan: JobPlan) -> list[ReplicaGroupPlan]:
    """Return one group of each container, so that what all share is shown once."""
    shown: dict[tuple[object, ...], ReplicaGroupPlan] = {}
    for group in plan.groups:
        shown.setdefault(_runs(group), group)
    return list(shown.values())


def _runs(group: ReplicaGroupPlan) -> tuple[object, ...]:
    """Return the properties that distinguish containers."""
    return group.image, group.command, group.args, group.non_root, group.rdma_nics


def _whose(plan: JobPlan, group: ReplicaGroupPlan) -> str:
    alike = [each.role.value for each in plan.groups if _runs(each) == _runs(group)]
    return "every replica" if len(alike) == len(plan.groups) else ", ".join(alike)


def _container(plan: JobPlan, group: ReplicaGroupPlan) -> list[str]:
    words = [*(group.command or ("<the image's ENTRYPOINT>",)), *(group.args or ())]
    shown = [word if word.startswith("<") else shlex.quote(word) for word in words]
    lines = [f"image    {group.image}", f"user     {_user(group)}", *_wrapped("command  ", shown)]
    if group.interpreter is not None:
        lines.extend(f"requires {requirement}" for requirement in plan.requirements)
    lines.extend(f"package  {uri}" for uri in group.package_uris)
    lines.append(f"env      {', '.join([*sorted(group.env), 'TF_CONFIG'])}")
    tasks = ", ".join(f"{len(hosts)} x {task}" for task, hosts in plan.cluster.tasks.items())
    lines.append(f"cluster  {tasks}")
    if group.rdma_nics:
        lines.append(f"network  RDMA between machines, {group.rdma_nics} interfaces each, by GKE's managed DRANET")
    return lines


def _user(group: ReplicaGroupPlan) -> str:
    return f"{NON_ROOT_ID}, without rights" if group.non_root else "the image's own"


def _wrapped(label: str, words: Sequence[str]) -> list[str]:
    """Return words behind a label, continued below it where a line is full; no word is broken."""
    lines: list[str] = []
    line = label
    for word in words:
        if len(line) + len(word) > _WIDTH - 4 and line.strip() != label.strip():
            lines.append(line.rstrip() + " \\")
            line = " " * len(label)
        line += f"{word} "
    return [*lines, line.rstrip()]


def _pools(plan: JobPlan) -> list[tuple[str, ...]]:
    return [
        (
            pool.name,
            f"{pool.min_nodes}..{pool.max_nodes}",
            pool.machine_type,
            _amount(pool.accelerator) + _slice(pool),
            _how(pool),
            f"{pool.disk_size_gb} GB {pool.disk_type}",
            _where(pool),
        )
        for pool in plan.node_pools
    ]


def _slice(pool: NodePoolPlan) -> str:
    if pool.tpu_topology is None:
        return ""
    return f" {pool.tpu_topology}" + (f" on {pool.tpu_hosts} hosts" if pool.multi_host else "")


def _how(pool: NodePoolPlan) -> str:
    """Return the provisioning in words: ``spot``, ``reservation NAME, streamed images``, and the pool's owner."""
    how = pool.provisioning.lower().replace("_", "-")
    named = f"{how} {pool.reservation}" if pool.reservation else how
    shared = f"{named}, shared" if pool.shared_in is not None else named
    return f"{shared}, streamed images" if pool.image_streaming else shared


def _where(pool: NodePoolPlan) -> str:
    """Return the place in words: ``us-central1-b, close together``; ``any`` for every zone of the cluster."""
    zones = [zone.rpartition("-")[2] for zone in pool.zones[1:]]
    named = "/".join((pool.zones[0], *zones)) if pool.zones else "any"
    return f"{named}, close together" if pool.compact else named


def _grant(grant: Grant) -> str:
    place = "the project" if grant.bucket is None else f"gs://{grant.bucket}/{grant.prefix}"
    return f"{grant.role} on {place}"


def _who(plan: JobPlan) -> str:
    account = plan.identity.kubernetes_service_account
    return plan.identity.service_account or f"Kubernetes account {plan.namespace}/{account} itself (DIRECT)"


def _storage(plan: JobPlan) -> list[str]:
    storage = plan.storage
    lines = [
        f"job dir  {storage.job_dir or 'NONE: what the job writes on its machines is lost (--keep-output)'}",
        f"kept     gs://{storage.bucket}/{storage.prefix} ({'results, ' if storage.job_dir else ''}logs, receipt)",
    ]
    if storage.scratch_bucket is not None:
        lines.append(f"scratch  gs://{storage.scratch_bucket} (goes with the job)")
    if storage.results_bucket is not None:
        lines.insert(1, f"own      gs://{storage.results_bucket} (made for the job, stays with its results)")
    lines.extend(
        f"files    {mount.path} ({'for reading' if mount.read_only else 'for reading and writing'})"
        for mount in storage.mounts
    )
    if storage.results_days is not None:
        lines.append(f"deleted  {storage.results_days} days after the job's end, by `encamp reap`")
    return lines


def _quotas(plan: JobPlan) -> list[tuple[str, ...]]:
    return [(need.name, need.region, str(need.amount)) for need in quotas(plan)]


def _queue(plan: JobPlan, queue: JobQueuePlan) -> list[str]:
    return [f"queue    {queue.name}{_priority(queue)}", f"held     {held_while_waiting(plan)} while it waits"]


def _priority(queue: JobQueuePlan) -> str:
    return f", priority {queue.priority_class}" if queue.priority_class is not None else ""


def _limits(plan: JobPlan) -> list[str]:
    limits = plan.limits
    wait = f"{limits.max_wait_time.seconds} s" if limits.max_wait_time is not None else "no limit"
    run = "job" if plan.study is None else "trial"
    return [
        f"running  {limits.max_running_time.seconds} s at most, waiting {wait}",
        *(_queue(plan, plan.queue) if plan.queue is not None else []),
        f"retries  {limits.max_replica_restarts} of a replica, then {limits.max_restarts} of the whole {run}",
        f"         none after {EQUAL_ENDS} equal ends of a replica in a row, each within {SOON_SECONDS} s of its start",
    ]


def _cost(planned: CostPlan) -> list[str]:
    header = ("NODE POOL", "COUNT", "WHAT", "USD/HOUR", "ONE RUN", "AT WORST")
    used = [
        line
        for one in planned.by_use
        for line in wrap(one.what, _WIDTH - 2, initial_indent="by use    ", subsequent_indent=" " * 10)
    ]
    return [*_columns(header, cost_rows(planned)), *cost_text(planned), *used]


def _amount(accelerator: Accelerator | None) -> str:
    return "-" if accelerator is None else f"{accelerator.count} x {accelerator.type}"


def _with(accelerator: Accelerator | None) -> str:
    return "" if accelerator is None else f" + {accelerator.count} x {accelerator.type}"
