"""Who a job's replicas are: a Google service account that the Kubernetes account stands for, or that account itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.plan.identity import workload_principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import Grant, JobPlan


class JobAccess(pulumi.ComponentResource):
    """The job's identity and its grants.

    Args:
        own: the buckets that the job makes, by name.

    Attributes:
        bindings: every grant; a replica that starts before them is refused by the services it calls.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        own: Mapping[str, gcp.storage.Bucket],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobAccess", name, {}, opts)
        self._own = own
        email = self._account(plan)
        member = self._principal(plan) if email is None else pulumi.Output.concat("serviceAccount:", email)
        self.bindings: list[pulumi.Resource] = [self._grant(plan, grant, member) for grant in plan.identity.grants]
        if email is not None:
            self.bindings.append(self._stands_for(plan, email))
        self.register_outputs({})

    def _stands_for(self, plan: JobPlan, email: pulumi.Output[str]) -> pulumi.Resource:
        """Lets the Kubernetes account act as the Google one."""
        return gcp.serviceaccount.IAMMember(
            "workload-identity",
            service_account_id=pulumi.Output.concat("projects/", plan.project, "/serviceAccounts/", email),
            role="roles/iam.workloadIdentityUser",
            member=(
                f"serviceAccount:{plan.project}.svc.id.goog"
                f"[{plan.namespace}/{plan.identity.kubernetes_service_account}]"
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _principal(self, plan: JobPlan) -> pulumi.Output[str]:
        """The Kubernetes account as a member; its pool is named by the project's number, which only the cloud knows."""
        found = gcp.organizations.get_project_output(
            project_id=plan.project, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        return found.number.apply(lambda number: workload_principal(plan, number))

    def _account(self, plan: JobPlan) -> pulumi.Output[str] | None:
        """The Google account's e-mail, known once it exists; None where the job has none."""
        if plan.identity.service_account is None:
            return None
        if plan.identity.account_id is None:
            return pulumi.Output.from_input(plan.identity.service_account)
        account = gcp.serviceaccount.Account(
            "account",
            account_id=plan.identity.account_id,
            display_name=f"encamp job {plan.name}",
            # A service account carries no labels: its description is how it is found again.
            description=" ".join(f"{key}={value}" for key, value in sorted(plan.labels.items())),
            project=plan.project,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return account.email

    def _grant(self, plan: JobPlan, grant: Grant, member: pulumi.Output[str]) -> pulumi.Resource:
        child = pulumi.ResourceOptions(parent=self)
        short = grant.role.rpartition("/")[2]
        if grant.bucket is None:
            return gcp.projects.IAMMember(short, project=plan.project, role=grant.role, member=member, opts=child)
        use = {plan.storage.scratch_bucket: "scratch", plan.storage.results_bucket: "results"}
        made = self._own.get(grant.bucket)
        return gcp.storage.BucketIAMMember(
            f"{short}-{use.get(grant.bucket, grant.bucket)}",
            bucket=made.name if made is not None else grant.bucket,
            role=grant.role,
            member=member,
            condition=_below(grant) if grant.prefix else None,
            opts=child,
        )


def _below(grant: Grant) -> gcp.storage.BucketIAMMemberConditionArgsDict:
    """The IAM condition that limits a bucket role to the objects below the grant's prefix, and to listing them.

    The folder's own name without the final slash belongs to it: clients look whether an object is called so. Listing is
    a request on the bucket itself, so it is judged by the prefix that it asks for (Cloud Storage's attribute
    ``objectListPrefix``).
    """
    # Strings of the Common Expression Language are written as JSON's are.
    start = f"projects/_/buckets/{grant.bucket}/objects/{grant.prefix}"
    asked = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
    allowed = (
        f"resource.name.startsWith({json.dumps(start)})",
        f"resource.name == {json.dumps(start.rstrip('/'))}",
        f"{asked}.startsWith({json.dumps(grant.prefix)})",
    )
    return {"title": "below-the-job", "expression": " || ".join(allowed)}
