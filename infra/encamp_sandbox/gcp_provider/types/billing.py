"""Budgets of billing accounts.

Source: hashicorp/terraform-provider-google-beta google-beta/services/billing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, ResourceType

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties


def _labels_out(labels: Body) -> Body:
    """Return labels as the API takes them: lists of values, of which each has one."""
    return {key: [value] for key, value in labels.items()}


def _labels_in(labels: Body) -> Body:
    return {key: value[0] if isinstance(value, list) and value else value for key, value in labels.items()}


def _show(answer: Body, inputs: Properties, _context: Context) -> Body:
    _, account, _, name = str(answer["name"]).split("/")
    return {"name": name, "billingAccount": inputs.get("billingAccount") or account}


BUDGET: Final = ResourceType(
    "gcp:billing/budget:Budget",
    "billingbudgets/v1",
    lambda inputs, _context: f"billingAccounts/{inputs['billingAccount']}/budgets",
    TypeMapping(
        names={
            "allUpdatesRule": "notificationsRule",
            "allUpdatesRule.disableDefaultIamRecipients": "disableDefaultIamRecipients",
        },
        out={"budgetFilter.labels": _labels_out, "amount.lastPeriodAmount": lambda on: {} if on else None},
        into={"budgetFilter.labels": _labels_in, "amount.lastPeriodAmount": lambda _value: True},
        own=frozenset({"deletionPolicy", "billingAccount", "name"}),
    ),
    short_name=lambda _inputs: None,
    show=_show,
    change=Change.MASK,
    fixed_name=False,
)
