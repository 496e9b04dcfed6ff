"""What lives long around jobs: network, cluster, registry, artifacts bucket and the namespace that jobs run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from encamp.components.access import Access
from encamp.components.budget import Budget
from encamp.components.chart import Chart
from encamp.components.cluster import Cluster
from encamp.components.driver import Driver
from encamp.components.environment_key import EnvironmentKey
from encamp.components.environment_storage import EnvironmentStorage
from encamp.components.monitoring import Monitoring
from encamp.components.network import Network
from encamp.components.node_account import NodeAccount
from encamp.components.queues import Queues
from encamp.components.reaper import Reaper
from encamp.plan.pod_security import NAMESPACE_LABELS

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan


class Environment(pulumi.ComponentResource):
    """An environment as planned, with its stack outputs.

    Attributes:
        outputs: what job stacks and the driver read of it; no secret among them.
    """

    def __init__(self, name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("encamp:components:Environment", name, {}, opts)
        services = [
            gcp.projects.Service(
                f"{name}-{service.partition('.')[0]}",
                service=service,
                project=plan.project,
                # Others in the project may use it too.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for service in plan.services
        ]
        child = pulumi.ResourceOptions(parent=self, depends_on=services)
        key = EnvironmentKey(name, plan, plan.key, opts=child) if plan.key is not None else None
        encrypted = key.grants if key is not None else []
        network = Network(name, plan, opts=child) if "cluster" not in plan.adopted else None
        registry = _registry(name, plan, pulumi.ResourceOptions(parent=self, depends_on=[*services, *encrypted]))
        ready: list[pulumi.Resource] = []
        if plan.gke.nodes is not None and plan.gke.nodes.account_id is not None:
            ready = NodeAccount("nodes", plan, plan.gke.nodes, registry=registry, opts=child).ready
        cluster = Cluster(name, plan, network, after=[*encrypted, *ready], opts=child)
        storage = EnvironmentStorage(name, plan, owner=self, after=encrypted, opts=child)
        if plan.budget is not None:
            Budget(name, plan, plan.budget, opts=child)
        inside = pulumi.ResourceOptions(parent=self, depends_on=cluster.ready)
        provider = k8s.Provider(name, kubeconfig=cluster.kubeconfig, opts=inside)
        namespace = k8s.core.v1.Namespace(
            name,
            metadata={"name": plan.namespace, "labels": {**plan.labels, **NAMESPACE_LABELS}},
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        charts = [Chart(chart.name, chart, provider=provider, opts=child) for chart in plan.charts]
        if plan.queues is not None:
            Queues("queues", plan, plan.queues, provider=provider, jobs=namespace, charts=charts, opts=child)
        if plan.reaper is not None:
            Reaper("reaper", plan, plan.reaper, provider=provider, jobs=namespace.metadata.name, opts=child)
        # A right is given only to who exists, and a bucket gets a key when it may be used.
        holders = [*ready, *encrypted]
        if plan.driver is not None:
            holders.append(Driver("driver", plan, plan.driver, provider=provider, opts=child).account)
        access: Access | None = None
        if plan.access is not None:
            jobs = namespace.metadata.name
            bucket = storage.artifacts
            access = Access(
                "access", plan, plan.access, provider=provider, jobs=jobs, artifacts=bucket, after=holders, opts=child
            )
        if plan.monitoring is not None:
            Monitoring("monitoring", plan, plan.monitoring, opts=child)
        self.outputs: dict[str, pulumi.Input[object]] = {
            "kubeconfig": cluster.kubeconfig,
            "cluster": cluster.cluster.name,
            "location": plan.region,
            "region": plan.region,
            "project": plan.project,
            "artifactsBucket": storage.artifacts,
            "namespace": namespace.metadata.name,
            "registry": pulumi.Output.concat(
                plan.region, "-docker.pkg.dev/", plan.project, "/", registry.repository_id
            ),
        }
        if access is not None and access.audit_writer is not None:
            self.outputs["auditWriter"] = access.audit_writer
        if storage.logs is not None:
            self.outputs["logsBucket"] = storage.logs
        self.register_outputs({})


def _registry(name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions) -> gcp.artifactregistry.Repository:
    if "registry" in plan.adopted:
        full_name = f"projects/{plan.project}/locations/{plan.region}/repositories/{plan.registry}"
        return gcp.artifactregistry.Repository.get(name, full_name, opts=opts)
    return gcp.artifactregistry.Repository(
        name,
        repository_id=plan.registry,
        location=plan.region,
        format="DOCKER",
        description="Images of training jobs",
        kms_key_name=plan.key.full_name if plan.key is not None else None,
        labels=dict(plan.labels),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=plan.protect)),
    )
