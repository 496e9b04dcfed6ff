"""From an environment's monitoring block to metrics, alerts and a dashboard.

Alerts read what is there without encamp where it can be: GKE's own metrics of JobSets (package JOBSET) and Compute
Engine's of machines. What only encamp knows, outcomes and costs, it tells the project's log (``job_log``).
Source of the metrics: cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics, "Table of JobSet metrics".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.plan.environment.dashboard import Board, dashboard, logged
from encamp.plan.environment.job_log import COST, JOB, STATE, WHY, Event, log_filter
from encamp.plan.environment.queues import FLAVOR_LABEL
from encamp.plan.model import ENVIRONMENT_LABEL, JOB_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.plan.machines.model import NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec, MonitoringSpec, QueuesSpec

_HOUR = 3600
_DAY = 24 * _HOUR
_MINUTE = 60


@dataclass(frozen=True)
class LogMetricPlan:
    """A metric of log entries: how many there were, or how their values lie.

    Attributes:
        key: logical name of its resource.
        labels: label of the metric to field of the entry.
        value: field with the number, None if entries are counted.
    """

    key: str
    name: str
    description: str
    filter: str
    labels: Mapping[str, str]
    value: str | None = None


@dataclass(frozen=True)
class QueryCondition:
    """A PromQL query that finds something for as long as ``seconds``."""

    query: str
    seconds: int


@dataclass(frozen=True)
class LogCondition:
    """An entry of the log that matches; ``labels`` names fields of it for the notification."""

    filter: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class ThresholdCondition:
    """A metric above a threshold for as long as ``seconds``, the highest of each group."""

    filter: str
    above: float
    seconds: int
    group: str


@dataclass(frozen=True)
class AlertPlan:
    """One alert policy.

    Attributes:
        key: logical name of its resource.
        severity: WARNING, ERROR or CRITICAL.
        advice: Markdown that comes with every notification: what it means, and what to do.
    """

    key: str
    title: str
    severity: str
    condition: QueryCondition | LogCondition | ThresholdCondition
    advice: str


@dataclass(frozen=True)
class MonitoringPlan:
    """The monitoring of an environment's jobs: metrics, alerts, their recipients and a dashboard.

    Attributes:
        channels: full names of channels that exist.
        dashboard: the dashboard as the API takes it, JSON.
    """

    emails: tuple[str, ...]
    channels: tuple[str, ...]
    metrics: tuple[LogMetricPlan, ...]
    alerts: tuple[AlertPlan, ...]
    dashboard: str
    labels: Mapping[str, str] = field(default_factory=dict)


def plan_monitoring(spec: EnvironmentSpec, labels: Mapping[str, str]) -> MonitoringPlan | None:
    """Decide an environment's monitoring, None if it asks for none."""
    wanted = spec.monitoring
    if wanted is None:
        return None
    metrics = _metrics(spec)
    board = Board(spec.name, spec.cluster, spec.region, spec.namespace, ends=metrics[0].name, cost=metrics[1].name)
    return MonitoringPlan(
        emails=wanted.emails,
        channels=wanted.channels,
        metrics=metrics,
        alerts=_alerts(spec, wanted),
        dashboard=json.dumps(dashboard(board), sort_keys=True),
        labels=labels,
    )


def overdue_warnings(pools: Iterable[NodePoolPlan], environment: EnvironmentSpec) -> list[str]:
    """Return warnings if a job's machines may be up for longer than the environment's alert allows."""
    longest = max((pool.max_run_duration_seconds for pool in pools), default=0)
    wanted = environment.monitoring
    if wanted is None or longest <= wanted.longest_job_hours * _HOUR:
        return []
    up = f"its machines may be up for {math.ceil(longest / _HOUR)} hours"
    told = f"the environment reports those that are up for more than {wanted.longest_job_hours}"
    return [f"{up}, and {told} (monitoring.longestJobHours)"]


def log_metric(spec: EnvironmentSpec, event: str) -> str:
    """Return the name of an environment's metric of log entries."""
    return f"encamp-{spec.name}-{event}"


def _metrics(spec: EnvironmentSpec) -> tuple[LogMetricPlan, ...]:
    ended = log_filter(spec.project, spec.name, Event.ENDED)
    return (
        LogMetricPlan(
            "monitoring-ends", log_metric(spec, "ends"), "Jobs that came to their ends, by outcome", ended,
            {STATE: STATE},
        ),
        LogMetricPlan(
            "monitoring-cost", log_metric(spec, "cost"), "What jobs cost by list prices in US dollars, by outcome",
            log_filter(spec.project, spec.name, Event.ENDED, f"jsonPayload.{COST}>0"), {STATE: STATE}, COST,
        ),
        LogMetricPlan(
            "monitoring-reaped", log_metric(spec, "reaped"), "Rounds of the environment's own reaper",
            log_filter(spec.project, spec.name, Event.REAPED), {},
        ),
    )  # fmt: skip


def _alerts(spec: EnvironmentSpec, wanted: MonitoringSpec) -> tuple[AlertPlan, ...]:
    found = (
        _pending(spec, wanted),
        _failed(spec),
        _failed_and_there(spec),
        _too_long(spec, wanted),
        _not_ended(spec),
    )
    shared = () if spec.queues is None or spec.queues.pools == () else (_too_old(spec, spec.queues),)
    return (*found, *shared) if spec.reaper is None else (*found, *shared, _silent(spec, wanted))


def _job_sets(spec: EnvironmentSpec) -> str:
    """Return the labels of GKE's metrics of the environment's JobSets."""
    return f'cluster="{spec.cluster}",location="{spec.region}",namespace="{spec.namespace}"'


def _pending(spec: EnvironmentSpec, wanted: MonitoringSpec) -> AlertPlan:
    of = f"{{{_job_sets(spec)}}}"
    running = f"kube_jobset_ready_replicas{of} + kube_jobset_succeeded_replicas{of}"
    query = f"sum by (jobset_name) (kube_jobset_specified_replicas{of}) > sum by (jobset_name) ({running})"
    return AlertPlan(
        "alert-pending",
        f"{spec.name}: a job is stuck pending",
        "WARNING",
        QueryCondition(query, wanted.pending_minutes * _MINUTE),
        f"Some replicas of the job have not run for {wanted.pending_minutes} minutes. `encamp attach JOB` says why: no "
        "quota, no stock in the zone, a queue, or an image that cannot be had. The job waits until its `maxWaitTime`.",
    )


def _failed(spec: EnvironmentSpec) -> AlertPlan:
    matching = log_filter(spec.project, spec.name, Event.ENDED, f'jsonPayload.{STATE}="FAILED"')
    return AlertPlan(
        "alert-failed",
        f"{spec.name}: a job failed",
        "WARNING",
        LogCondition(matching, {JOB: f"jsonPayload.{JOB}", WHY: f"jsonPayload.{WHY}"}),
        "`encamp describe JOB` shows the outcome, `encamp logs JOB` what its replicas said. Its machines are gone.",
    )


def _failed_and_there(spec: EnvironmentSpec) -> AlertPlan:
    of = f'{{{_job_sets(spec)},condition="Failed"}}'
    return AlertPlan(
        "alert-unattended",
        f"{spec.name}: a failed job is not taken down",
        "ERROR",
        QueryCondition(f"max by (jobset_name) (kube_jobset_status_condition{of}) == 1", 30 * _MINUTE),
        "The JobSet has failed half an hour ago and is still there: nobody drives the job. `encamp reap` seals its "
        "logs and takes it down.",
    )


def _too_long(spec: EnvironmentSpec, wanted: MonitoringSpec) -> AlertPlan:
    matching = " AND ".join(
        (
            'metric.type="compute.googleapis.com/instance/uptime_total"',
            'resource.type="gce_instance"',
            f'metadata.user_labels."{ENVIRONMENT_LABEL}"="{spec.name}"',
            f'metadata.user_labels."{JOB_LABEL}"=monitoring.regex.full_match(".+")',
        )
    )
    group = f'metadata.user_labels."{JOB_LABEL}"'
    return AlertPlan(
        "alert-deadline",
        f"{spec.name}: a node pool is alive past its deadline",
        "CRITICAL",
        ThresholdCondition(matching, wanted.longest_job_hours * _HOUR, 5 * _MINUTE, group),
        f"A machine of the job is up for more than {wanted.longest_job_hours} hours, longer than any job may take. Its "
        "pool's maximum run duration should have ended it. `encamp reap --job JOB`; if that fails, delete the pool by "
        "hand and then reap.",
    )


def _too_old(spec: EnvironmentSpec, queues: QueuesSpec) -> AlertPlan:
    matching = " AND ".join(
        (
            'metric.type="compute.googleapis.com/instance/uptime_total"',
            'resource.type="gce_instance"',
            f'metadata.user_labels."{ENVIRONMENT_LABEL}"="{spec.name}"',
            f'metadata.user_labels."{FLAVOR_LABEL}"=monitoring.regex.full_match(".+")',
        )
    )
    seconds = queues.machine_days * _DAY + _HOUR
    group = f'metadata.user_labels."{FLAVOR_LABEL}"'
    return AlertPlan(
        "alert-shared-machine",
        f"{spec.name}: a machine of the queues is past its age",
        "CRITICAL",
        ThresholdCondition(matching, seconds, 5 * _MINUTE, group),
        f"A machine that jobs share is up for more than {queues.machine_days} days, after which its pool's maximum run "
        "duration should have ended it. Delete the node's machine; if it comes back without a job, delete the pool and "
        f"run `encamp environment up {spec.name}`.",
    )


def _not_ended(spec: EnvironmentSpec) -> AlertPlan:
    return AlertPlan(
        "alert-not-ended",
        f"{spec.name}: a job could not be taken down",
        "CRITICAL",
        LogCondition(
            log_filter(spec.project, spec.name, Event.NOT_ENDED),
            {JOB: f"jsonPayload.{JOB}", WHY: f"jsonPayload.{WHY}"},
        ),
        "Something of the job may still exist, and may be billed. `encamp reap --dry-run --job JOB` lists it, "
        "`encamp reap --job JOB` tries again.",
    )


def _silent(spec: EnvironmentSpec, wanted: MonitoringSpec) -> AlertPlan:
    rounds = f'{logged(log_metric(spec, "reaped"))}{{monitored_resource="k8s_cluster"}}'
    return AlertPlan(
        "alert-reaper",
        f"{spec.name}: the reaper is silent",
        "ERROR",
        QueryCondition(f"absent_over_time({rounds}[{wanted.silent_minutes}m])", 0),
        f"The environment's own reaper has not finished a round for {wanted.silent_minutes} minutes: see its CronJob's "
        "pods. Until it does, jobs whose drivers died end by their own kill switches only.",
    )
