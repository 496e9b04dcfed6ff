"""Cloud Monitoring's rules for the conditions of an alert policy.

Sources: cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies,
cloud.google.com/logging/docs/alerting/log-based-alerts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.rules import Rule

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change, Problem

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


def _conditions(change: Change) -> list[dict[str, Any]]:
    return list(change.at("conditions") or ())


def _count(change: Change) -> Problem:
    count = len(_conditions(change))
    return None if 1 <= count <= _MOST else f"Field conditions had an invalid value: there must be 1 to {_MOST}"


def _one_kind(change: Change) -> Problem:
    for number, condition in enumerate(_conditions(change)):
        kinds = [kind for kind in _KINDS if condition.get(kind)]
        if len(kinds) != 1:
            return f"Field conditions[{number}] must have exactly one kind of condition, got {len(kinds)}"
    return None


def _alone(change: Change) -> Problem:
    conditions = _conditions(change)
    for condition in conditions:
        kind = next((kind for kind in _ALONE if condition.get(kind)), None)
        if kind and len(conditions) > 1:
            return f"Field conditions had an invalid value: a {kind} must be the only condition of its policy"
    return None


def _durations(change: Change) -> Problem:
    for number, condition in enumerate(_conditions(change)):
        for kind in _KINDS:
            given = (condition.get(kind) or {}).get("duration")
            if given is None:
                continue
            seconds = _seconds(given)
            if seconds is None or seconds % 60 or seconds > _LONGEST_SECONDS:
                return f'conditions[{number}]: duration "{given}" must be whole minutes in seconds, at most 23.5 hours'
    return None


def _rate_limit(change: Change) -> Problem:
    of_logs = any(condition.get("conditionMatchedLog") for condition in _conditions(change))
    limit = ((change.at("alertStrategy") or {}).get("notificationRateLimit") or {}).get("period")
    if of_logs and not limit:
        return "Field alert_strategy.notification_rate_limit is required for policies with a LogMatch condition"
    return None


def _auto_close(change: Change) -> Problem:
    given = (change.at("alertStrategy") or {}).get("autoClose")
    if given is None:
        return None
    seconds = _seconds(given)
    if seconds is None or not _SHORTEST_CLOSE_SECONDS <= seconds <= _LONGEST_CLOSE_SECONDS:
        return f'Field alert_strategy.auto_close "{given}" must be from 30 minutes to 7 days, in seconds'
    return None


def _log_metric(change: Change) -> Problem:
    """Refuse a threshold on an unknown log-based metric, by the Monitoring API's own check of the filter."""
    known = {metric.name.partition("/metrics/")[2] for metric in change.cloud.store.all_of("logMetric")}
    for condition in _conditions(change):
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
    Rule("alert-has-1-to-6-conditions", _count),
    Rule("alert-condition-has-one-kind", _one_kind),
    Rule("alert-conditions-that-stand-alone", _alone),
    Rule("alert-durations", _durations),
    Rule("alert-of-logs-has-a-rate-limit", _rate_limit),
    Rule("alert-auto-close", _auto_close),
    Rule("alert-log-metric-exists", _log_metric, code=404),
)
