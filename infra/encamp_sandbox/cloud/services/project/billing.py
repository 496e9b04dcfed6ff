"""Cloud Billing (v1) and budgets (v1). Nothing of the sandbox costs, so no budget is ever reached.

Sources: cloud.google.com/billing/docs/reference/rest/v1/projects,
cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.collection import Collection, Update, named_by_server
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule, choice
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import default

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem

_ACCOUNT = re.compile(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}")
_LONGEST_NAME, _MOST_CHANNELS = 60, 5
_BASES = ("CURRENT_SPEND", "FORECASTED_SPEND")
#: Belief ``iam-100-accounts-a-project``.
_ACCOUNTS: Final = {
    "quotaId": "ServiceAccountsPerProject",
    "metric": "iam.googleapis.com/quota/service-account-count",
    "service": "iam.googleapis.com",
    "dimensionsInfos": [{"details": {"value": "100"}}],
}


async def _billing_info(ask: Ask) -> dict[str, Any]:
    ask.require("resourcemanager.projects.get")
    named = {"name": f"projects/{ask.cloud.project}/billingInfo", "projectId": ask.cloud.project}
    return {**named, "billingAccountName": "billingAccounts/000000-000000-000000", "billingEnabled": True}


async def _test(ask: Ask) -> dict[str, Any]:
    """Return all tested permissions: the caller may do anything with an account, as there is none behind it."""
    return {"permissions": (await ask.call.json()).get("permissions") or []}


def cloud_billing(cloud: Cloud) -> Api:
    """Serve cloudbilling.googleapis.com."""
    methods = (
        Route("projects/{project}/billingInfo", ("GET",), _billing_info),
        Route("billingAccounts/{account}", ("POST",), _test, verb="testIamPermissions"),
    )
    return Api(cloud, "cloudbilling", ("v1",), (), methods)


def _account(change: Change) -> Problem:
    account = change.name.split("/")[1]
    return None if _ACCOUNT.fullmatch(account) else f'"billing_account" ("{account}") is no id of a billing account'


def _display_name(change: Change) -> Problem:
    name = str(change.at("displayName") or "")
    return None if len(name) <= _LONGEST_NAME else f"display_name is longer than {_LONGEST_NAME} characters"


def _amount(change: Change) -> Problem:
    amount = change.at("amount") or {}
    specified = amount.get("specifiedAmount")
    if (amount.get("lastPeriodAmount") is not None) == (specified is not None):
        return "exactly one of amount.specified_amount and amount.last_period_amount has to be given"
    if specified is None:
        return None
    if not str(specified.get("units") or "0").isdecimal():
        return f"amount.specified_amount.units '{specified['units']}' must be a whole number, not below 0"
    return None


def _thresholds(change: Change) -> Problem:
    for number, rule in enumerate(change.at("thresholdRules") or ()):
        if float(rule["thresholdPercent"]) < 0:
            return f"threshold_rules.{number}.threshold_percent must not be below 0"
        if rule.get("spendBasis") not in (None, *_BASES):
            return f"expected threshold_rules.{number}.spend_basis to be one of {list(_BASES)}"
    return None


def _filter(change: Change) -> Problem:
    chosen = change.at("budgetFilter") or {}
    if len(chosen.get("labels") or {}) > 1:
        return "Currently, multiple entries of budget_filter.labels are not allowed."
    wrong = [one for one in chosen.get("projects") or () if not str(one).startswith("projects/")]
    if wrong:
        return f"budget_filter.projects '{wrong[0]}' must be of the form projects/NUMBER."
    if chosen.get("calendarPeriod") and chosen.get("customPeriod"):
        return "exactly one of budget_filter.calendar_period and custom_period has to be given"
    return None


def _told(change: Change) -> Problem:
    rule = change.at("notificationsRule")
    if not rule:
        return None
    channels = rule.get("monitoringNotificationChannels") or ()
    if len(channels) > _MOST_CHANNELS:
        return f"notifications_rule takes at most {_MOST_CHANNELS} monitoring_notification_channels"
    if not channels and not rule.get("pubsubTopic"):
        return "notifications_rule needs pubsub_topic or monitoring_notification_channels"
    return None


def _fill(change: Change) -> None:
    default(
        change.body,
        {
            "displayName": "",
            "budgetFilter.creditTypesTreatment": "INCLUDE_ALL_CREDITS",
            "budgetFilter.calendarPeriod": None if change.at("budgetFilter.customPeriod") else "MONTH",
        },
    )
    if (specified := change.at("amount.specifiedAmount")) is not None:
        default(specified, {"currencyCode": "USD"})
    for rule in change.at("thresholdRules") or ():
        default(rule, {"spendBasis": "CURRENT_SPEND"})


BUDGETS: Final = Collection(
    kind="budget",
    path="billingAccounts/{account}/budgets",
    style=Plain(etag=True),
    permission="billing.budgets",
    identify=named_by_server,
    new_id=lambda: str(uuid4()),
    rules=(
        Rule("billing-account-ids", _account),
        Rule("budget-names-of-60-characters", _display_name),
        Rule("budget-has-one-amount", _amount),
        Rule("budget-thresholds", _thresholds),
        Rule("budget-filters", _filter),
        Rule("budget-notifications", _told),
        choice("budget-scopes", "ownershipScope", ("ALL_USERS", "BILLING_ACCOUNT")),
    ),
    fill=_fill,
    update=Update.MASK,
)


def budgets(cloud: Cloud) -> Api:
    """Serve billingbudgets.googleapis.com."""
    return Api(cloud, "billingbudgets", ("v1", "v1beta1"), (BUDGETS,))


async def _quota(ask: Ask, *, limit: float) -> dict[str, Any]:
    """Return a quota: every family has the same limit everywhere."""
    ask.require("cloudquotas.quotas.get")
    shown = {"quotaId": ask.variables["quota"], "service": ask.variables["service"]}
    return {**shown, "dimensionsInfos": [{"details": {"value": str(int(limit))}}]}


async def _quotas(ask: Ask) -> dict[str, Any]:
    """Return the quotas of a service: of IAM that of service accounts, as every project has it."""
    ask.require("cloudquotas.quotas.get")
    return {"quotaInfos": [_ACCOUNTS]} if ask.variables["service"] == _ACCOUNTS["service"] else {}


def cloud_quotas(cloud: Cloud, limit: float) -> Api:
    """Serve cloudquotas.googleapis.com."""
    all_ = "projects/{project}/locations/global/services/{service}/quotaInfos"
    one = Route(f"{all_}/{{quota}}", ("GET",), partial(_quota, limit=limit))
    return Api(cloud, "cloudquotas", ("v1",), (), (Route(all_, ("GET",), _quotas), one))
