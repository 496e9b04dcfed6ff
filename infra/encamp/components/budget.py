"""The environment's budget alert. It reports and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from encamp.plan.environment.model import BudgetPlan
    from encamp.plan.model import EnvironmentPlan


class Budget(pulumi.ComponentResource):
    """A monthly budget on what carries the environment's label.

    Args:
        acts_as: the service account that the stack's own provider impersonates, None without.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: BudgetPlan,
        *,
        acts_as: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Budget", name, {}, opts)
        found = gcp.organizations.get_project_output(
            project_id=environment.project, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        # The Budget API refuses a person's credentials unless a project is named whose quota the request counts
        # against (billing-budget-quota-project); a service account's do as well with it.
        provider = gcp.Provider(
            "billing",
            project=environment.project,
            region=environment.region,
            billing_project=environment.project,
            user_project_override=True,
            impersonate_service_account=acts_as,
            opts=pulumi.ResourceOptions(parent=self),
        )
        gcp.billing.Budget(
            name,
            billing_account=plan.billing_account,
            display_name=plan.display_name,
            amount={"specified_amount": _amount(plan)},
            budget_filter={
                # By its number: Google answers with that, and a name would differ at every preview.
                "projects": [pulumi.Output.concat("projects/", found.number)],
                "labels": dict(plan.labels) or None,
                # What Google fills in where it is absent (budget-calendar-period).
                "calendar_period": "MONTH",
            },
            threshold_rules=[{"threshold_percent": share, "spend_basis": basis} for share, basis in plan.thresholds],
            all_updates_rule=_told(plan),
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        self.register_outputs({})


def _amount(plan: BudgetPlan) -> gcp.billing.BudgetAmountSpecifiedAmountArgsDict:
    amount: gcp.billing.BudgetAmountSpecifiedAmountArgsDict = {"units": str(plan.units)}
    if plan.currency is not None:
        amount["currency_code"] = plan.currency
    return amount


def _told(plan: BudgetPlan) -> gcp.billing.BudgetAllUpdatesRuleArgsDict | None:
    """Who hears of it beside billing administrators and users."""
    if not plan.channels and plan.topic is None:
        return None
    rule: gcp.billing.BudgetAllUpdatesRuleArgsDict = {}
    if plan.channels:
        rule["monitoring_notification_channels"] = list(plan.channels)
    if plan.topic is not None:
        rule["pubsub_topic"] = plan.topic
        rule["schema_version"] = "1.0"
    return rule
