"""Queues of an environment, as Kueue is told of them: flavors, checks, priorities, and each team's queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

from encamp.components.kubernetes_object import KubernetesObject
from encamp.plan.environment.queue_manifests import queue_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as k8s

    from encamp.components.chart import Chart
    from encamp.plan.environment.queues import QueuesPlan
    from encamp.plan.model import EnvironmentPlan


class Queues(pulumi.ComponentResource):
    """Everything that Kueue is told.

    Args:
        jobs: the namespace of the jobs.
        charts: the controllers, where the environment installs them.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: QueuesPlan,
        *,
        provider: k8s.Provider,
        jobs: pulumi.Resource,
        charts: Sequence[Chart],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Queues", name, {}, opts)
        before: list[pulumi.Resource] = [jobs, *(resource for chart in charts for resource in chart.ready)]
        for stage in queue_manifests(plan, environment.labels):
            options = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=list(before))
            before += [KubernetesObject(manifest["metadata"]["name"], manifest, options) for manifest in stage]
        self.register_outputs({})
