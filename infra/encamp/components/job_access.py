"""Who a job's replicas are: a Google service account, what it may do, and the Kubernetes account that stands for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from encamp.plan.model import Grant, JobPlan


class JobAccess(pulumi.ComponentResource):
    """The job's identity and its grants.

    Attributes:
        email: the service account's e-mail, known once it exists.
        bindings: every grant; a replica that starts before them is refused by the services it calls.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        scratch: gcp.storage.Bucket,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobAccess", name, {}, opts)
        self.email: pulumi.Output[str] = self._account(plan)
        member = pulumi.Output.concat("serviceAccount:", self.email)
        self.bindings: list[pulumi.Resource] = [
            self._grant(plan, grant, member, scratch) for grant in plan.identity.grants
        ]
        self.bindings.append(
            gcp.serviceaccount.IAMMember(
                "workload-identity",
                service_account_id=pulumi.Output.concat("projects/", plan.project, "/serviceAccounts/", self.email),
                role="roles/iam.workloadIdentityUser",
                member=(
                    f"serviceAccount:{plan.project}.svc.id.goog"
                    f"[{plan.namespace}/{plan.identity.kubernetes_service_account}]"
                ),
                opts=pulumi.ResourceOptions(parent=self),
            )
        )
        self.register_outputs({})

    def _account(self, plan: JobPlan) -> pulumi.Output[str]:
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

    def _grant(
        self, plan: JobPlan, grant: Grant, member: pulumi.Output[str], scratch: gcp.storage.Bucket
    ) -> pulumi.Resource:
        child = pulumi.ResourceOptions(parent=self)
        short = grant.role.rpartition("/")[2]
        if grant.bucket is None:
            return gcp.projects.IAMMember(short, project=plan.project, role=grant.role, member=member, opts=child)
        own = grant.bucket == plan.storage.scratch_bucket
        return gcp.storage.BucketIAMMember(
            f"{short}-{'scratch' if own else grant.bucket}",
            bucket=scratch.name if own else grant.bucket,
            role=grant.role,
            member=member,
            condition=_below(grant) if grant.prefix else None,
            opts=child,
        )


def _below(grant: Grant) -> gcp.storage.BucketIAMMemberConditionArgsDict:
    """The IAM condition that limits a bucket role to the objects below the grant's prefix, and to listing them.

    Listing is a request on the bucket itself, so it is judged by the prefix that it asks for (Cloud Storage's attribute
    ``objectListPrefix``).
    """
    start = f"projects/_/buckets/{grant.bucket}/objects/{grant.prefix}"
    listed = f'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("{grant.prefix}")'
    return {"title": "below-the-job", "expression": f'resource.name.startsWith("{start}") || {listed}'}
