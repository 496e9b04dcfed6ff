"""The environment's own reaper: a CronJob with an identity that may end jobs, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from encamp.components.namespace_role import RoleHolder, give_role
from encamp.components.pod_account import acted_as_by_pods
from encamp.plan.access.reaper import REAPER_GRANTS, REAPER_PERMISSIONS, REAPER_RULES
from encamp.plan.environment.in_cluster import ENDINGS_AT_ONCE, engine_resources, engine_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.environment.model import ReaperPlan
    from encamp.plan.model import EnvironmentPlan


class Reaper(pulumi.ComponentResource):
    """A CronJob in a namespace of its own, so that who may run jobs may not run as the reaper.

    Args:
        provider: of the environment's cluster.
        jobs: name of the namespace that jobs run in.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: ReaperPlan,
        *,
        provider: k8s.Provider,
        jobs: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Reaper", name, {}, opts)
        self._plan = plan
        self._labels = dict(environment.labels)
        self._cluster = pulumi.ResourceOptions(parent=self, provider=provider)
        self._project = environment.project
        account = self._account(environment, provider)
        self._in_cluster(account, jobs)
        self.register_outputs({})

    def _account(self, environment: EnvironmentPlan, provider: k8s.Provider) -> gcp.serviceaccount.Account:
        """The reaper's service account, as which its pods act."""
        plan, child = self._plan, pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            "reaper",
            account_id=plan.name,
            display_name=f"encamp reaper of {environment.name}",
            project=self._project,
            opts=child,
        )
        member = pulumi.Output.concat("serviceAccount:", account.email)
        title = f"encamp reaper of {environment.name}"
        role = self._role("reaper", plan.role_id, title, REAPER_PERMISSIONS)
        gcp.projects.IAMMember("reaper", project=self._project, role=role.name, member=member, opts=child)
        grants = self._role("reaper-grants", plan.grants_role_id, f"{title}: grants of jobs", REAPER_GRANTS)
        gcp.projects.IAMMember(
            "reaper-grants",
            project=self._project,
            role=grants.name,
            member=member,
            condition={"title": plan.grants.title, "expression": plan.grants.expression},
            opts=child,
        )
        acted_as_by_pods("reaper-pod", account, plan.name, self._project, provider=provider, opts=child)
        return account

    def _role(self, name: str, role_id: str, title: str, permissions: Sequence[str]) -> gcp.projects.IAMCustomRole:
        return gcp.projects.IAMCustomRole(
            name,
            role_id=role_id,
            title=title,
            permissions=list(permissions),
            project=self._project,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _in_cluster(self, account: gcp.serviceaccount.Account, jobs: pulumi.Input[str]) -> None:
        plan = self._plan
        namespace = k8s.core.v1.Namespace(
            "reaper", metadata={"name": plan.name, "labels": self._labels}, opts=self._cluster
        )
        own = namespace.metadata.name
        pod_account = k8s.core.v1.ServiceAccount(
            "reaper",
            metadata={
                "name": plan.name,
                "namespace": own,
                "labels": self._labels,
                "annotations": {"iam.gke.io/gcp-service-account": account.email},
            },
            automount_service_account_token=False,
            opts=self._cluster,
        )
        self._rights(account, jobs)
        k8s.batch.v1.CronJob(
            "reaper",
            metadata={"name": plan.name, "namespace": own, "labels": self._labels},
            spec={
                "schedule": plan.schedule,
                "time_zone": "Etc/UTC",
                "concurrency_policy": "Forbid",
                "starting_deadline_seconds": 300,
                "successful_jobs_history_limit": 1,
                "failed_jobs_history_limit": 3,
                "job_template": {"spec": {"backoff_limit": 0, "template": self._pod(pod_account)}},
            },
            opts=self._cluster,
        )

    def _rights(self, account: gcp.serviceaccount.Account, jobs: pulumi.Input[str]) -> None:
        metadata = {"name": self._plan.name, "namespace": jobs, "labels": self._labels}
        # By the pod's own token, and by the e-mail where it authenticates at Google.
        pod = RoleHolder("ServiceAccount", self._plan.name, self._plan.name)
        give_role("reaper", metadata, REAPER_RULES, (pod, RoleHolder("User", account.email)), self._cluster)

    def _pod(self, account: k8s.core.v1.ServiceAccount) -> k8s.core.v1.PodTemplateSpecArgsDict:
        plan = self._plan
        resources = engine_resources(ENDINGS_AT_ONCE)
        reaper: k8s.core.v1.ContainerArgsDict = {
            "name": "reaper",
            "image": plan.image,
            "command": ["encamp", "reap", "--remote", "--environment", pulumi.get_stack()],
            "env": [
                {"name": name, "value": value}
                for name, value in engine_variables(plan.backend_url, plan.cluster).items()
            ],
            "env_from": [{"secret_ref": {"name": plan.record_secret}}],
            "resources": {"requests": resources["requests"], "limits": resources["limits"]},
            "security_context": {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        return {
            "metadata": {"labels": self._labels},
            "spec": {
                "restart_policy": "Never",
                "service_account_name": account.metadata.name,
                # By this token it reaches the API server; at Google it has its account's.
                "automount_service_account_token": True,
                "security_context": {"run_as_non_root": True, "seccomp_profile": {"type": "RuntimeDefault"}},
                "containers": [reaper],
            },
        }
