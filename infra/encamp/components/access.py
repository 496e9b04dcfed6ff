"""Who may do what in an environment: custom roles of the project, who has them, and the same in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.audit import Audit
from encamp.components.namespace_role import RoleHolder, give_role
from encamp.spec.ml_roles import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as k8s

    from encamp.plan.access.model import AccessPlan, ClusterRolePlan, CustomRolePlan, MemberRolePlan, SubjectPlan
    from encamp.plan.model import EnvironmentPlan

#: Source: cloud.google.com/iam/docs/service-agents, Cloud TPU.
_TPU_ROLE = "roles/cloudtpu.serviceAgent"


def _holder(plan: SubjectPlan) -> RoleHolder:
    return RoleHolder(plan.kind, plan.name, plan.namespace)


class Access(pulumi.ComponentResource):
    """Teams' roles in the project, on the artifacts bucket, and in the namespace of the jobs.

    Args:
        provider: of the environment's cluster.
        jobs: name of the namespace that jobs run in.
        artifacts: name of the artifacts bucket.
        after: what must stand before: the accounts of machines and drivers, rights on the key.

    Attributes:
        audit_writer: who writes exported audit logs, None where none are exported: the destination's owner lets it in.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: AccessPlan,
        *,
        provider: k8s.Provider,
        jobs: pulumi.Input[str],
        artifacts: pulumi.Input[str],
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Access", name, {}, opts)
        self._project = environment.project
        self._child = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        self._artifacts = artifacts
        self._nodes = f"projects/{environment.project}/serviceAccounts/{plan.node_account}"
        roles = {role.key: self._role(role) for role in plan.roles}
        for member in plan.members:
            self._give(member, roles[member.role])
        for cluster_role in plan.cluster_roles:
            self._in_cluster(environment, cluster_role, provider, jobs)
        if plan.cloud_tpu:
            self._cloud_tpu()
        self.audit_writer: pulumi.Output[str] | None = None
        if plan.audit is not None:
            self.audit_writer = Audit("audit", environment, plan.audit, after=after, opts=self._child).writer
        self.register_outputs({})

    def _role(self, role: CustomRolePlan) -> gcp.projects.IAMCustomRole:
        return gcp.projects.IAMCustomRole(
            role.key,
            role_id=role.role_id,
            title=role.title,
            permissions=list(role.permissions),
            project=self._project,
            opts=self._child,
        )

    def _give(self, held: MemberRolePlan, role: gcp.projects.IAMCustomRole) -> None:
        name = f"{held.role} {held.member}"
        condition = held.condition
        if held.reach is Reach.NODES:
            gcp.serviceaccount.IAMMember(
                name, service_account_id=self._nodes, role=role.name, member=held.member, opts=self._child
            )
        elif held.reach in {Reach.ARTIFACTS, Reach.ARTIFACTS_GRANTS, Reach.MODELS}:
            on_bucket: gcp.storage.BucketIAMMemberConditionArgsDict | None = None
            if condition is not None:
                on_bucket = {"title": condition.title, "expression": condition.expression}
            gcp.storage.BucketIAMMember(
                name,
                bucket=self._artifacts,
                role=role.name,
                member=held.member,
                condition=on_bucket,
                opts=self._child,
            )
        else:
            on_project: gcp.projects.IAMMemberConditionArgsDict | None = None
            if condition is not None:
                on_project = {"title": condition.title, "expression": condition.expression}
            gcp.projects.IAMMember(
                name,
                project=self._project,
                role=role.name,
                member=held.member,
                condition=on_project,
                opts=self._child,
            )

    def _in_cluster(
        self, environment: EnvironmentPlan, plan: ClusterRolePlan, provider: k8s.Provider, jobs: pulumi.Input[str]
    ) -> None:
        inside = pulumi.ResourceOptions(parent=self, provider=provider)
        metadata = {"name": plan.name, "namespace": jobs, "labels": dict(environment.labels)}
        give_role(plan.name, metadata, plan.rules, map(_holder, plan.subjects), inside)

    def _cloud_tpu(self) -> None:
        """Cloud TPU's agent, made before Google would, so that its role stands in the program."""
        service = gcp.projects.Service(
            "tpu",
            service="tpu.googleapis.com",
            project=self._project,
            disable_on_destroy=False,
            opts=self._child,
        )
        agent = gcp.projects.ServiceIdentity("tpu", service=service.service, project=self._project, opts=self._child)
        gcp.projects.IAMMember("tpu", project=self._project, role=_TPU_ROLE, member=agent.member, opts=self._child)
