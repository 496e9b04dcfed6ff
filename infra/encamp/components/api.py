"""The jobs API in the environment's cluster: its account at Google, and what it is made of there.

What the account may do to jobs is given with everybody's roles (``access.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.kubernetes_object import KubernetesObject
from encamp.components.pod_account import acted_as_by_pods
from encamp.plan.environment.api import api_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as k8s

    from encamp.plan.environment.api import ApiPlan
    from encamp.plan.model import EnvironmentPlan


class Api(pulumi.ComponentResource):
    """A namespace of the service's own, so that who reads jobs' or drivers' pods reads no caller's.

    Args:
        provider: of the environment's cluster.
        after: what must stand before: the namespaces of jobs and drivers.

    Attributes:
        account: the service's account at Google.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: ApiPlan,
        *,
        provider: k8s.Provider,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Api", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.account = gcp.serviceaccount.Account(
            "api",
            account_id=plan.name,
            display_name=f"encamp jobs API of {environment.name}",
            project=environment.project,
            opts=child,
        )
        acted_as_by_pods("api-pod", self.account, plan.name, environment.project, provider=provider, opts=child)
        before: list[pulumi.Resource] = list(after)
        for manifest in api_objects(plan, pulumi.get_stack()):
            inside = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=list(before))
            elsewhere = manifest["metadata"].get("namespace", plan.name) != plan.name
            name = str(manifest["metadata"]["name"]).removeprefix("encamp-") if elsewhere else "api"
            made = KubernetesObject(name, manifest, inside)
            if manifest["kind"] == "Namespace":
                before.append(made)
        self.register_outputs({})
