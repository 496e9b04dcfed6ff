"""The environment's own reaper: a CronJob with an identity that may end jobs, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan, ReaperPlan

#: What ``cloud/leftovers.py``, sealing and the engine's ``destroy`` ask of Google, and no more.
PERMISSIONS = (
    "compute.regionOperations.get",
    "compute.resourcePolicies.delete",
    "compute.resourcePolicies.get",
    "compute.resourcePolicies.list",
    "container.clusters.connect",
    "container.clusters.get",
    "container.clusters.update",
    "container.operations.get",
    "container.operations.list",
    "iam.serviceAccounts.delete",
    "iam.serviceAccounts.get",
    "iam.serviceAccounts.getIamPolicy",
    "iam.serviceAccounts.list",
    "iam.serviceAccounts.setIamPolicy",
    "logging.logEntries.create",
    "logging.logEntries.list",
    "resourcemanager.projects.get",
    "resourcemanager.projects.getIamPolicy",
    "resourcemanager.projects.setIamPolicy",
    "storage.buckets.delete",
    "storage.buckets.get",
    "storage.buckets.getIamPolicy",
    "storage.buckets.list",
    "storage.buckets.setIamPolicy",
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
    "storage.objects.update",
)
_ENDED = ["get", "list", "delete"]
_RULES = (
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": _ENDED},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _ENDED},
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "serviceaccounts", "podtemplates"],
        "verbs": _ENDED,
    },
    {"apiGroups": ["autoscaling.x-k8s.io"], "resources": ["provisioningrequests"], "verbs": _ENDED},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _ENDED},
    {"apiGroups": [""], "resources": ["pods/log", "events"], "verbs": ["get", "list"]},
)


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
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            "reaper",
            account_id=plan.name,
            display_name=f"encamp reaper of {environment.name}",
            project=environment.project,
            opts=child,
        )
        role = gcp.projects.IAMCustomRole(
            "reaper",
            role_id=plan.role_id,
            title=f"encamp reaper of {environment.name}",
            permissions=list(PERMISSIONS),
            project=environment.project,
            opts=child,
        )
        member = pulumi.Output.concat("serviceAccount:", account.email)
        gcp.projects.IAMMember("reaper", project=environment.project, role=role.name, member=member, opts=child)
        gcp.serviceaccount.IAMMember(
            "reaper-pod",
            service_account_id=account.name,
            role="roles/iam.workloadIdentityUser",
            member=f"serviceAccount:{environment.project}.svc.id.goog[{plan.name}/{plan.name}]",
            # The identity pool that it is a member of comes with the first cluster.
            opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[provider])),
        )
        self._in_cluster(account, jobs)
        self.register_outputs({})

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
        metadata: Any = {"name": plan.name, "namespace": jobs, "labels": self._labels}
        rules: Any = list(_RULES)
        role = k8s.rbac.v1.Role("reaper", metadata=metadata, rules=rules, opts=self._cluster)
        group = "rbac.authorization.k8s.io"
        reference: Any = {"apiGroup": group, "kind": "Role", "name": role.metadata.name}
        # GKE knows who authenticates at Google by the e-mail.
        subjects: Any = [{"apiGroup": group, "kind": "User", "name": account.email}]
        k8s.rbac.v1.RoleBinding("reaper", metadata=metadata, role_ref=reference, subjects=subjects, opts=self._cluster)
        spec: Any = {
            "schedule": plan.schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 300,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": self._pod(pod_account)}},
        }
        k8s.batch.v1.CronJob(
            "reaper",
            metadata={"name": plan.name, "namespace": own, "labels": self._labels},
            spec=spec,
            opts=self._cluster,
        )

    def _pod(self, account: k8s.core.v1.ServiceAccount) -> dict[str, object]:
        plan = self._plan
        return {
            "metadata": {"labels": self._labels},
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": account.metadata.name,
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": "reaper",
                        "image": plan.image,
                        "command": ["encamp", "reap", "--remote", "--environment", pulumi.get_stack()],
                        "env": [
                            {"name": "PULUMI_BACKEND_URL", "value": plan.backend_url},
                            {"name": "PULUMI_SKIP_UPDATE_CHECK", "value": "true"},
                        ],
                        "envFrom": [{"secretRef": {"name": plan.record_secret}}],
                        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            },
        }
