"""Budgets of billing accounts. Nothing of the sandbox costs, so none is ever reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, uuid5

from encamp.sandbox.cloud.gcp.common import DELETION_POLICY
from encamp.sandbox.cloud.gcp.model import ResourceType, Rule, choice_rule, pattern_rule
from encamp.sandbox.cloud.gcp.stored import StoredBackend

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_BUDGETS = "cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets"
_LONGEST_NAME, _MOST_CHANNELS = 60, 5
_BASES = ("CURRENT_SPEND", "FORECASTED_SPEND")


def _full_name(inputs: Properties, _: Context) -> str:
    """Google's ids are random; here a display name has one, so that the sandbox has it once."""
    account = f"billingAccounts/{inputs['billingAccount']}"
    name = inputs.get("displayName") or ""
    return f"{account}/budgets/{uuid5(NAMESPACE_URL, f'{account}/{name}')}"


def _outputs(resource: CloudResource, _: Context) -> dict[str, Any]:
    return {"name": resource.short_name}


def _display_name(inputs: Properties, _: Context) -> Problem:
    name = str(inputs.get("displayName") or "")
    return None if len(name) <= _LONGEST_NAME else f"display_name is longer than {_LONGEST_NAME} characters"


def _amount(inputs: Properties, _: Context) -> Problem:
    amount = inputs.get("amount") or {}
    specified = amount.get("specifiedAmount")
    if bool(amount.get("lastPeriodAmount")) == (specified is not None):
        return "exactly one of amount.specified_amount and amount.last_period_amount has to be given"
    if specified is None:
        return None
    if not str(specified.get("units") or "0").isdecimal():
        return f"amount.specified_amount.units '{specified['units']}' must be a whole number, not below 0"
    return None


def _thresholds(inputs: Properties, _: Context) -> Problem:
    for number, rule in enumerate(inputs.get("thresholdRules") or ()):
        if float(rule["thresholdPercent"]) < 0:
            return f"threshold_rules.{number}.threshold_percent must not be below 0"
        if rule.get("spendBasis") not in (None, *_BASES):
            return f"expected threshold_rules.{number}.spend_basis to be one of {list(_BASES)}"
    return None


def _filter(inputs: Properties, _: Context) -> Problem:
    chosen = inputs.get("budgetFilter") or {}
    if len(chosen.get("labels") or {}) > 1:
        return "Currently, multiple entries of budget_filter.labels are not allowed."
    wrong = [one for one in chosen.get("projects") or () if not str(one).startswith("projects/")]
    if wrong:
        return f"budget_filter.projects '{wrong[0]}' must be of the form projects/NUMBER."
    if chosen.get("calendarPeriod") and chosen.get("customPeriod"):
        return "exactly one of budget_filter.calendar_period and custom_period has to be given"
    return None


def _told(inputs: Properties, _: Context) -> Problem:
    rule = inputs.get("allUpdatesRule")
    if rule is None:
        return None
    channels = rule.get("monitoringNotificationChannels") or ()
    if len(channels) > _MOST_CHANNELS:
        return f"all_updates_rule takes at most {_MOST_CHANNELS} monitoring_notification_channels"
    if not channels and not rule.get("pubsubTopic"):
        return "all_updates_rule needs pubsub_topic or monitoring_notification_channels"
    return None


BUDGET: Final = ResourceType(
    "gcp:billing/budget:Budget",
    wheel=("pulumi_gcp.billing", "Budget"),
    backend=StoredBackend(kind="budget", full_name=_full_name, outputs=_outputs),
    required=("billingAccount", "amount"),
    immutable=("billingAccount",),
    computed=("name",),
    rules=(
        DELETION_POLICY,
        pattern_rule(
            "account", "billingAccount", r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}", f"{_BUDGETS}/create",
            "is no id of a billing account",
        ),
        choice_rule("scope", "ownershipScope", ("ALL_USERS", "BILLING_ACCOUNT"), _BUDGETS),
        Rule("display name", f"{_BUDGETS}#Budget", ("displayName",), _display_name, api=True),
        Rule("amount", f"{_BUDGETS}#BudgetAmount", ("amount",), _amount),
        Rule("thresholds", f"{_BUDGETS}#ThresholdRule", ("thresholdRules",), _thresholds, api=True),
        Rule("filter", f"{_BUDGETS}#Filter", ("budgetFilter",), _filter, api=True),
        Rule("notifications", f"{_BUDGETS}#NotificationsRule", ("allUpdatesRule",), _told, api=True),
    ),
)  # fmt: skip
