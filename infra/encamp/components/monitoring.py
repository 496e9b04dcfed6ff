"""The dashboard of an environment's jobs, and alerts about conditions that should not last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.duration import Duration
from encamp.plan.environment.monitoring import LogCondition, QueryCondition

if TYPE_CHECKING:
    from encamp.plan.environment.monitoring import AlertPlan, LogMetricPlan, MonitoringPlan, ThresholdCondition
    from encamp.plan.model import EnvironmentPlan

#: How often a notification of the same kind is sent at most, and when an incident without news is closed.
_AT_MOST_EVERY, _CLOSED_AFTER = "300s", "86400s"
_EVALUATED_EVERY = "60s"
_ALIGNED_TO = "300s"


class Monitoring(pulumi.ComponentResource):
    """Notification channels, metrics of the log, alert policies and the dashboard."""

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: MonitoringPlan,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Monitoring", name, {}, opts)
        self._project = environment.project
        self._child = pulumi.ResourceOptions(parent=self)
        made = [
            gcp.monitoring.NotificationChannel(
                f"mail-{email}",
                type="email",
                display_name=f"encamp {environment.name}: {email}",
                labels={"email_address": email},
                user_labels=dict(plan.labels),
                project=self._project,
                opts=self._child,
            )
            for email in plan.emails
        ]
        channels = [*(channel.name for channel in made), *plan.channels]
        for metric in plan.metrics:
            self._metric(metric)
        for alert in plan.alerts:
            gcp.monitoring.AlertPolicy(
                alert.key,
                display_name=alert.title,
                combiner="OR",
                severity=alert.severity,
                conditions=[_condition(alert)],
                notification_channels=channels,
                documentation={"content": alert.advice, "mime_type": "text/markdown"},
                alert_strategy=_strategy(alert),
                user_labels=dict(plan.labels),
                project=self._project,
                opts=self._child,
            )
        gcp.monitoring.Dashboard("jobs", dashboard_json=plan.dashboard, project=self._project, opts=self._child)
        self.register_outputs({})

    def _metric(self, metric: LogMetricPlan) -> None:
        labels: list[gcp.logging.MetricMetricDescriptorLabelArgsDict] = [
            {"key": key, "value_type": "STRING"} for key in metric.labels
        ]
        gcp.logging.Metric(
            metric.key,
            name=metric.name,
            description=metric.description,
            filter=metric.filter,
            metric_descriptor={
                "metric_kind": "DELTA",
                "value_type": "INT64" if metric.value is None else "DISTRIBUTION",
                "unit": "1",
                "labels": labels or None,
            },
            label_extractors={key: f"EXTRACT(jsonPayload.{at})" for key, at in metric.labels.items()} or None,
            value_extractor=None if metric.value is None else f"EXTRACT(jsonPayload.{metric.value})",
            project=self._project,
            opts=self._child,
        )


def _condition(alert: AlertPlan) -> gcp.monitoring.AlertPolicyConditionArgsDict:
    condition = alert.condition
    if isinstance(condition, LogCondition):
        extractors = {key: f"EXTRACT({at})" for key, at in condition.labels.items()} or None
        return {
            "display_name": alert.title,
            "condition_matched_log": {"filter": condition.filter, "label_extractors": extractors},
        }
    if isinstance(condition, QueryCondition):
        return {
            "display_name": alert.title,
            "condition_prometheus_query_language": {
                "query": condition.query,
                "duration": str(Duration.of(condition.seconds)),
                "evaluation_interval": _EVALUATED_EVERY,
                # In a new project nothing has written these metrics yet, and the policy would be refused for it.
                "disable_metric_validation": True,
            },
        }
    return {"display_name": alert.title, "condition_threshold": _threshold(condition)}


def _threshold(condition: ThresholdCondition) -> gcp.monitoring.AlertPolicyConditionConditionThresholdArgsDict:
    return {
        "filter": condition.filter,
        "comparison": "COMPARISON_GT",
        "threshold_value": condition.above,
        "duration": str(Duration.of(condition.seconds)),
        "aggregations": [
            {
                "alignment_period": _ALIGNED_TO,
                "per_series_aligner": "ALIGN_MAX",
                "cross_series_reducer": "REDUCE_MAX",
                "group_by_fields": [condition.group],
            }
        ],
        "trigger": {"count": 1},
    }


def _strategy(alert: AlertPlan) -> gcp.monitoring.AlertPolicyAlertStrategyArgsDict:
    """Only policies of log entries take a limit of their notifications, and have to have one."""
    if isinstance(alert.condition, LogCondition):
        return {"auto_close": _CLOSED_AFTER, "notification_rate_limit": {"period": _AT_MOST_EVERY}}
    return {"auto_close": _CLOSED_AFTER}
