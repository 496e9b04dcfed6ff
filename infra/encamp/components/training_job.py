"""A training job: everything that lives as long as it does, and the order in which it may exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from encamp.components.job_access import JobAccess
from encamp.components.job_node_pools import JobNodePools
from encamp.components.job_storage import JobStorage
from encamp.components.job_workload import JobWorkload
from encamp.plan.manifests.job import render_manifests
from encamp.plan.model import DEADLINE_LABEL
from encamp.plan.rendering import to_json
from encamp.plan.summary import job_summary

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan


class PlannedJob(pulumi.ComponentResource):
    """One job as planned. ``up`` returns when its resources exist; it never waits for the training.

    Args:
        cluster: name of the environment's cluster.
        kubeconfig: of the same cluster.
        cluster_path: its full name, ``projects/P/locations/L/clusters/C``. Another way into the same cluster changes
            nothing of the job.
        deadline: seconds since the epoch after which the job's resources may be reaped.
        secret: the job's text is a secret: the engine's state and previews hold what of it runs encrypted.
        prefix: of the logical names of what it is made of; a program with several jobs needs one for each.

    Attributes:
        outputs: what the driver and the reaper read of the stack: with plain ``pulumi up`` they are the intent.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        *,
        cluster: pulumi.Input[str],
        kubeconfig: pulumi.Input[str],
        cluster_path: str,
        deadline: str,
        secret: bool = False,
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        summary = job_summary(plan, secret=secret).to_json()
        # An input, so that the state says what is going to be made before any of it is.
        super().__init__("encamp:components:TrainingJob", name, {"intent": to_json(summary)}, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels = {**plan.labels, DEADLINE_LABEL: deadline}
        storage = JobStorage(f"{prefix}storage", plan, labels, prefix=prefix, opts=child)
        access = JobAccess(f"{prefix}access", plan, storage.own, deadline, prefix=prefix, opts=child)
        pools = JobNodePools(f"{prefix}node-pools", plan, cluster, labels, prefix=prefix, opts=child)
        workload = JobWorkload(
            f"{prefix}workload",
            render_manifests(plan),
            provider=k8s.Provider(
                f"{prefix}cluster", kubeconfig=kubeconfig, cluster_identifier=cluster_path, opts=child
            ),
            deadline=deadline,
            summary=to_json(summary),
            secret=secret,
            prefix=prefix,
            after=[*access.bindings, *pools.pools, *storage.packages],
            opts=child,
        )
        self.outputs: dict[str, pulumi.Input[object]] = {
            **summary,
            # As the resources carry it, so that a later preview does not show a later deadline.
            "deadline": workload.deadline,
        }
        self.register_outputs({})
