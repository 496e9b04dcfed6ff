"""The long-lived resources around jobs: network, cluster, registry, artifacts bucket and the jobs' namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from encamp.components.access import Access
from encamp.components.api import Api
from encamp.components.budget import Budget
from encamp.components.chart import Chart
from encamp.components.cluster import Cluster
from encamp.components.driver import Driver
from encamp.components.environment_key import EnvironmentKey
from encamp.components.environment_storage import EnvironmentStorage
from encamp.components.kubernetes_object import KubernetesObject
from encamp.components.monitoring import Monitoring
from encamp.components.network import Network
from encamp.components.node_account import NodeAccount
from encamp.components.queues import Queues
from encamp.components.reaper import Reaper
from encamp.components.registries import docker_hub_cache, own_registry
from encamp.components.shared_pools import SharedPools
from encamp.plan.environment.pod_admission import namespace_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.environment.model import LogExclusionPlan
    from encamp.plan.model import EnvironmentPlan


class PlannedEnvironment(pulumi.ComponentResource):
    """An environment as planned, with its stack outputs.

    Args:
        acts_as: the service account that the stack's own provider impersonates, None without.

    Attributes:
        outputs: what job stacks and the driver read of it; no secret among them.
    """

    def __init__(
        self,
        name: str,
        plan: EnvironmentPlan,
        *,
        acts_as: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Environment", name, {}, opts)
        self._name, self._plan = name, plan
        self._child = pulumi.ResourceOptions(parent=self, depends_on=self._services())
        key = EnvironmentKey(name, plan, plan.key, opts=self._child) if plan.key is not None else None
        encrypted = key.grants if key is not None else []
        under_key = pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(depends_on=encrypted))
        network = Network(name, plan, opts=self._child) if "cluster" not in plan.adopted else None
        registry = own_registry(name, plan, under_key)
        caches = [docker_hub_cache(name, plan, plan.image_cache, under_key)] if plan.image_cache is not None else []
        ready = self._node_account([registry, *caches])
        cluster = Cluster(name, plan, network, after=[*encrypted, *ready], opts=self._child)
        storage = EnvironmentStorage(name, plan, owner=self, after=encrypted, opts=self._child)
        self._watch(acts_as)
        if plan.shared_pools:
            SharedPools("shared-pools", plan, cluster, opts=self._child)
        self.outputs: dict[str, pulumi.Input[object]] = {
            "kubeconfig": cluster.kubeconfig,
            "cluster": cluster.cluster.name,
            "location": plan.region,
            "region": plan.region,
            "project": plan.project,
            "artifactsBucket": storage.artifacts,
            "registry": pulumi.Output.concat(
                plan.region, "-docker.pkg.dev/", plan.project, "/", registry.repository_id
            ),
        }
        if storage.logs is not None:
            self.outputs["logsBucket"] = storage.logs
        # A right is given only to who exists, and a bucket gets a key when it may be used.
        self._inside(cluster, storage, holders=[*ready, *encrypted])
        self.register_outputs({})

    def _watch(self, acts_as: str | None) -> None:
        """Declare budgets, dashboards, alerts and exclusions of logs."""
        plan = self._plan
        if plan.budget is not None:
            Budget(self._name, plan, plan.budget, acts_as=acts_as, opts=self._child)
        if plan.log_exclusion is not None:
            self._keep_out(plan.log_exclusion)
        if plan.monitoring is not None:
            Monitoring("monitoring", plan, plan.monitoring, opts=self._child)

    def _keep_out(self, plan: LogExclusionPlan) -> None:
        """Let Cloud Logging not take in what is stored elsewhere."""
        gcp.logging.ProjectExclusion(
            "job-logs",
            name=plan.name,
            description=plan.description,
            filter=plan.filter,
            project=self._plan.project,
            opts=self._child,
        )

    def _services(self) -> list[pulumi.Resource]:
        """Google's APIs that the environment and its jobs ask."""
        return [
            gcp.projects.Service(
                f"{self._name}-{service.partition('.')[0]}",
                service=service,
                project=self._plan.project,
                # Others in the project may use it too.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for service in self._plan.services
        ]

    def _node_account(self, registries: Sequence[gcp.artifactregistry.Repository]) -> list[pulumi.Resource]:
        """Declare the roles that nodes need before the first comes; none if their account is somebody else's."""
        nodes = self._plan.gke.nodes
        if nodes is None or nodes.account_id is None:
            return []
        return NodeAccount("nodes", self._plan, nodes, registries=registries, opts=self._child).ready

    def _inside(self, cluster: Cluster, storage: EnvironmentStorage, *, holders: list[pulumi.Resource]) -> None:
        """Declare the objects in the cluster and who may reach them; rights are given after ``holders`` exist."""
        plan, child = self._plan, self._child
        # By the identifier another way into the cluster replaces nothing of it
        # (kubernetes-provider-cluster-identifier); another cluster of the same name replaces everything.
        ready = pulumi.ResourceOptions(parent=self, depends_on=cluster.ready, replace_with=[cluster.cluster])
        provider = k8s.Provider(
            self._name, kubeconfig=cluster.kubeconfig, cluster_identifier=plan.gke.full_name, opts=ready
        )
        inside = pulumi.ResourceOptions(parent=self, provider=provider)
        # It judges pods before the namespace's own label stops to.
        judges = [KubernetesObject(each["metadata"]["name"], each, inside) for each in plan.pod_admission]
        judged = namespace_labels(locked_memory=bool(judges))
        metadata = {"name": plan.namespace, "labels": {**plan.labels, **judged}}
        namespace = KubernetesObject(
            self._name,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
            pulumi.ResourceOptions(parent=self, provider=provider, depends_on=judges),
        )
        jobs = namespace.called
        self.outputs["namespace"] = jobs
        charts = [Chart(chart.name, chart, provider=provider, opts=child) for chart in plan.charts]
        if plan.queues is not None:
            Queues("queues", plan, plan.queues, provider=provider, jobs=namespace, charts=charts, opts=child)
        if plan.reaper is not None:
            Reaper("reaper", plan, plan.reaper, provider=provider, jobs=jobs, opts=child)
        if plan.driver is not None:
            driver = Driver("driver", plan, plan.driver, provider=provider, opts=child)
            holders = [*holders, driver.account]
            if plan.api is not None:
                api = Api("api", plan, plan.api, provider=provider, after=[namespace, driver], opts=child)
                holders = [*holders, api.account]
        if plan.access is not None:
            bucket = storage.artifacts
            access = Access(
                "access", plan, plan.access, provider=provider, jobs=jobs, artifacts=bucket, after=holders, opts=child
            )
            if access.audit_writer is not None:
                self.outputs["auditWriter"] = access.audit_writer
