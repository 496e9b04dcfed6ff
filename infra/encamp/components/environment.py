"""What lives long around jobs: network, cluster, registry, artifacts bucket and the namespace that jobs run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from encamp.components.cluster import Cluster
from encamp.components.monitoring import Monitoring
from encamp.components.network import Network
from encamp.components.reaper import Reaper

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

#: The services that an environment and its jobs ask; enabling an enabled one changes nothing.
SERVICES = (
    "artifactregistry.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "storage.googleapis.com",
)


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
            for service in SERVICES
        ]
        child = pulumi.ResourceOptions(parent=self, depends_on=services)
        network = Network(name, plan, opts=child)
        cluster = Cluster(name, plan, network, opts=child)
        registry = gcp.artifactregistry.Repository(
            name,
            repository_id=plan.registry,
            location=plan.region,
            format="DOCKER",
            description="Images of training jobs",
            labels=dict(plan.labels),
            opts=child,
        )
        artifacts = _artifacts(name, plan, child)
        provider = k8s.Provider(name, kubeconfig=cluster.kubeconfig, opts=pulumi.ResourceOptions(parent=self))
        namespace = k8s.core.v1.Namespace(
            name,
            metadata={"name": plan.namespace, "labels": dict(plan.labels)},
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        if plan.reaper is not None:
            Reaper("reaper", plan, plan.reaper, provider=provider, jobs=namespace.metadata.name, opts=child)
        if plan.monitoring is not None:
            Monitoring("monitoring", plan, plan.monitoring, opts=child)
        self.outputs: dict[str, pulumi.Input[object]] = {
            "kubeconfig": cluster.kubeconfig,
            "cluster": cluster.cluster.name,
            "location": plan.region,
            "region": plan.region,
            "project": plan.project,
            "artifactsBucket": artifacts.name,
            "namespace": namespace.metadata.name,
            "registry": pulumi.Output.concat(
                plan.region, "-docker.pkg.dev/", plan.project, "/", registry.repository_id
            ),
        }
        self.register_outputs({})


def _artifacts(name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions) -> gcp.storage.Bucket:
    """The bucket where results, sealed logs and receipts outlive their jobs."""
    expiry: list[gcp.storage.BucketLifecycleRuleArgsDict] = []
    if plan.artifacts_retention_days is not None:
        expiry.append({"action": {"type": "Delete"}, "condition": {"age": plan.artifacts_retention_days}})
    return gcp.storage.Bucket(
        f"{name}-artifacts",
        name=plan.artifacts_bucket,
        location=plan.region.upper(),
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        lifecycle_rules=expiry,
        # People's results: a destroy of the environment must fail rather than lose them.
        force_destroy=False,
        labels=dict(plan.labels),
        opts=opts,
    )
