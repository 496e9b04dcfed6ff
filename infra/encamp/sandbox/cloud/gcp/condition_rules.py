"""What Cloud Monitoring refuses of an alert policy's conditions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.model import Rule

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_POLICIES = "cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies"
_LOG_ALERTS = "cloud.google.com/logging/docs/alerting/log-based-alerts"
_MOST = 6
_LONGEST_SECONDS = 23 * 3600 + 1800
_SHORTEST_CLOSE_SECONDS, _LONGEST_CLOSE_SECONDS = 1800, 7 * 86400
_KINDS = (
    "conditionThreshold",
    "conditionAbsent",
    "conditionMatchedLog",
    "conditionMonitoringQueryLanguage",
    "conditionPrometheusQueryLanguage",
    "conditionSql",
)
#: Kinds that stand alone in their policy.
_ALONE = ("conditionMatchedLog", "conditionMonitoringQueryLanguage", "conditionPrometheusQueryLanguage", "conditionSql")


def _conditions(inputs: Properties) -> list[dict[str, Any]]:
    return list(inputs.get("conditions") or ())


def _count(inputs: Properties, _: Context) -> Problem:
    count = len(_conditions(inputs))
    return None if 1 <= count <= _MOST else f"Field conditions had an invalid value: there must be 1 to {_MOST}"


def _one_kind(inputs: Properties, _: Context) -> Problem:
    for number, condition in enumerate(_conditions(inputs)):
        kinds = [kind for kind in _KINDS if condition.get(kind)]
        if len(kinds) != 1:
            return f"Field conditions[{number}] must have exactly one kind of condition, got {len(kinds)}"
    return None


def _alone(inputs: Properties, _: Context) -> Problem:
    conditions = _conditions(inputs)
    for condition in conditions:
        kind = next((kind for kind in _ALONE if condition.get(kind)), None)
        if kind and len(conditions) > 1:
            return f"Field conditions had an invalid value: a {kind} must be the only condition of its policy"
    return None


def _durations(inputs: Properties, _: Context) -> Problem:
    for number, condition in enumerate(_conditions(inputs)):
        for kind in _KINDS:
            given = (condition.get(kind) or {}).get("duration")
            if given is None:
                continue
            seconds = _seconds(given)
            if seconds is None or seconds % 60 or seconds > _LONGEST_SECONDS:
                return f'conditions[{number}]: duration "{given}" must be whole minutes in seconds, at most 23.5 hours'
    return None


def _rate_limit(inputs: Properties, _: Context) -> Problem:
    of_logs = any(condition.get("conditionMatchedLog") for condition in _conditions(inputs))
    limit = ((inputs.get("alertStrategy") or {}).get("notificationRateLimit") or {}).get("period")
    if of_logs and not limit:
        return "Field alert_strategy.notification_rate_limit is required for policies with a LogMatch condition"
    return None


def _auto_close(inputs: Properties, _: Context) -> Problem:
    given = (inputs.get("alertStrategy") or {}).get("autoClose")
    if given is None:
        return None
    seconds = _seconds(given)
    if seconds is None or not _SHORTEST_CLOSE_SECONDS <= seconds <= _LONGEST_CLOSE_SECONDS:
        return f'Field alert_strategy.auto_close "{given}" must be from 30 minutes to 7 days, in seconds'
    return None


def _log_metric(inputs: Properties, context: Context) -> Problem:
    """A threshold on a log's metric needs the metric, by the Monitoring API's own check of the filter."""
    known = {metric.short_name for metric in context.cloud.store.all_of("logMetric")}
    for condition in _conditions(inputs):
        for kind in ("conditionThreshold", "conditionAbsent"):
            text = str((condition.get(kind) or {}).get("filter") or "")
            for name in re.findall(r'logging\.googleapis\.com/user/([^"]+)"', text):
                if name not in known:
                    return f'Cannot find metric that matches type = "logging.googleapis.com/user/{name}".'
    return None


def _seconds(text: object) -> int | None:
    found = re.fullmatch(r"([0-9]+)s", str(text))
    return int(found[1]) if found else None


CONDITION_RULES: Final = (
    Rule("conditions", _POLICIES, ("conditions",), _count, api=True),
    Rule("kind", f"{_POLICIES}#Condition", ("conditions",), _one_kind, api=True),
    Rule("alone", f"{_POLICIES}#AlertPolicy.FIELDS.conditions", ("conditions",), _alone, api=True),
    Rule("durations", f"{_POLICIES}#MetricThreshold", ("conditions",), _durations, api=True),
    Rule("rate limit", _LOG_ALERTS, ("conditions", "alertStrategy"), _rate_limit, api=True),
    Rule("auto close", f"{_POLICIES}#AlertStrategy", ("alertStrategy",), _auto_close, api=True),
    Rule("log metric", f"{_POLICIES}#MetricThreshold", ("conditions",), _log_metric, api=True, code=404),
)
