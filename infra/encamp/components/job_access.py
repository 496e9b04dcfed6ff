"""Who a job's replicas are: their Kubernetes account itself, or a Google service account that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import UNTIL, marks, until
from encamp.plan.access.conditions import objects_of
from encamp.plan.access.identity import BUCKET_READER, workload_principal
from encamp.plan.declared import grant_name
from encamp.plan.model import DEADLINE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import Grant, JobPlan


class JobAccess(pulumi.ComponentResource):
    """The job's identity and its grants.

    Args:
        own: the buckets that the job makes, by name.
        deadline: seconds since the epoch; no grant with a condition gives anything after it.
        prefix: of the logical names of what it is made of.

    Attributes:
        bindings: every grant; a replica that starts before them is refused by the services it calls.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        own: Mapping[str, gcp.storage.Bucket],
        deadline: str,
        *,
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobAccess", name, {}, opts)
        self._prefix = prefix
        self._own = own
        #: A bucket that takes the Kubernetes account as a member has uniform access, and so takes conditions too.
        self._is_direct = plan.identity.service_account is None
        #: A service account and a binding carry no labels: a description is how they are found again.
        self._marks = marks({**plan.labels, DEADLINE_LABEL: deadline})
        self._until = until(deadline)
        email = self._account(plan)
        member = self._principal(plan) if email is None else pulumi.Output.concat("serviceAccount:", email)
        self.bindings: list[pulumi.Resource] = [self._grant(plan, grant, member) for grant in plan.identity.grants]
        if email is not None:
            self.bindings.append(self._stands_for(plan, email))
        self.register_outputs({})

    def _stands_for(self, plan: JobPlan, email: pulumi.Output[str]) -> pulumi.Resource:
        """Lets the Kubernetes account act as the Google one."""
        return gcp.serviceaccount.IAMMember(
            f"{self._prefix}workload-identity",
            service_account_id=pulumi.Output.concat("projects/", plan.project, "/serviceAccounts/", email),
            role="roles/iam.workloadIdentityUser",
            member=(
                f"serviceAccount:{plan.project}.svc.id.goog"
                f"[{plan.namespace}/{plan.identity.kubernetes_service_account}]"
            ),
            condition={"title": UNTIL, "description": self._marks, "expression": self._until},
            opts=self._bound(),
        )

    def _bound(self) -> pulumi.ResourceOptions:
        """A binding keeps the deadline that it was made with; see ``deadline.py``."""
        return pulumi.ResourceOptions(parent=self, ignore_changes=["condition"])

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
            f"{self._prefix}account",
            account_id=plan.identity.account_id,
            display_name=f"encamp job {plan.name}",
            description=self._marks,
            project=plan.project,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["description"]),
        )
        return account.email

    def _grant(self, plan: JobPlan, grant: Grant, member: pulumi.Output[str]) -> pulumi.Resource:
        name = f"{self._prefix}{grant_name(plan, grant)}"
        if grant.bucket is None:
            return gcp.projects.IAMMember(
                name,
                project=plan.project,
                role=grant.role,
                member=member,
                condition={"title": UNTIL, "description": self._marks, "expression": self._until},
                opts=self._bound(),
            )
        made = self._own.get(grant.bucket)
        return gcp.storage.BucketIAMMember(
            name,
            bucket=made.name if made is not None else grant.bucket,
            role=grant.role,
            member=member,
            condition=self._condition(grant),
            opts=self._bound(),
        )

    def _condition(self, grant: Grant) -> gcp.storage.BucketIAMMemberConditionArgsDict | None:
        """None where a bucket takes no conditions, or may not: then only the member says whose the binding is.

        Conditions need uniform access, which a bucket that somebody else made may lack unless its member is a
        Kubernetes account (a grant of some objects is planned only where it has it), and legacy bucket roles stand for
        access control lists, which know none.
        """
        limited = objects_of(grant)
        if limited:
            expression = f"{self._until} && ({limited})"
            return {"title": "below-the-job", "description": self._marks, "expression": expression}
        takes_conditions = self._is_direct or grant.bucket in self._own
        if not takes_conditions or grant.role == BUCKET_READER:
            return None
        return {"title": UNTIL, "description": self._marks, "expression": self._until}
