"""Where drivers of jobs run in the environment's cluster: their account, and who may hand jobs over to them.

What the account may do to jobs is given with everybody's roles (``access.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from encamp.components.namespace_role import RoleHolder, give_role
from encamp.components.pod_account import acted_as_by_pods
from encamp.kinds.rights import ClusterRule
from encamp.plan.environment.driver import admissions

if TYPE_CHECKING:
    from encamp.plan.environment.driver import DriverPlan
    from encamp.plan.model import EnvironmentPlan

#: kubernetes.io/docs/concepts/security/pod-security-standards
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
#: To hand a job over is to make a Job and its Secret; nobody reads one.
_SUBMITTING = (
    ClusterRule("batch", ("jobs",), ("create", "get", "list")),
    ClusterRule("", ("secrets",), ("create",)),
    ClusterRule("", ("pods", "pods/log"), ("get", "list")),
)


class Driver(pulumi.ComponentResource):
    """A namespace of the drivers' own, so that who reads jobs' pods reads no driver's record.

    Args:
        provider: of the environment's cluster.

    Attributes:
        account: the drivers' service account at Google.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: DriverPlan,
        *,
        provider: k8s.Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Driver", name, {}, opts)
        self._plan = plan
        self._inside = pulumi.ResourceOptions(parent=self, provider=provider)
        child = pulumi.ResourceOptions(parent=self)
        self.account = gcp.serviceaccount.Account(
            "driver",
            account_id=plan.name,
            display_name=f"encamp drivers of {environment.name}",
            project=environment.project,
            opts=child,
        )
        acted_as_by_pods("driver-pod", self.account, plan.name, environment.project, provider=provider, opts=child)
        namespace = k8s.core.v1.Namespace(
            "driver", metadata={"name": plan.name, "labels": {**plan.labels, **_RESTRICTED}}, opts=self._inside
        )
        own = namespace.metadata.name
        self._admission()
        k8s.core.v1.ServiceAccount(
            "driver",
            metadata={
                "name": plan.name,
                "namespace": own,
                "labels": dict(plan.labels),
                "annotations": {"iam.gke.io/gcp-service-account": self.account.email},
            },
            automount_service_account_token=False,
            opts=self._inside,
        )
        if plan.submitters:
            self._submitting(own)
        self.register_outputs({})

    def _admission(self) -> None:
        """Lets nothing but drivers into their namespace."""
        plan = self._plan
        checks: list[k8s.admissionregistration.v1.ValidationArgsDict] = [
            {"expression": each.expression, "message": each.message} for each in admissions(plan)
        ]
        policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            "drivers-only",
            metadata={"name": plan.name, "labels": dict(plan.labels)},
            spec={
                "failure_policy": "Fail",
                "match_constraints": {
                    "namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": plan.name}},
                    "resource_rules": [
                        {
                            "api_groups": ["batch"],
                            "api_versions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["jobs"],
                        }
                    ],
                },
                "validations": checks,
            },
            opts=self._inside,
        )
        k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            "drivers-only",
            metadata={"name": plan.name, "labels": dict(plan.labels)},
            spec={"policy_name": policy.metadata.name, "validation_actions": ["Deny"]},
            opts=self._inside,
        )

    def _submitting(self, namespace: pulumi.Input[str]) -> None:
        """Lets submitters hand jobs over."""
        metadata = {"name": "encamp-submit", "namespace": namespace, "labels": dict(self._plan.labels)}
        holders = [RoleHolder(each.kind, each.name) for each in self._plan.submitters]
        give_role("submit", metadata, _SUBMITTING, holders, self._inside)
