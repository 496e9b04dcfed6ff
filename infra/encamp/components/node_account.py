"""The account of an environment's nodes, which may write logs and metrics and pull images, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.environment.model import NodeAccountPlan
    from encamp.plan.model import EnvironmentPlan

_READER = "roles/artifactregistry.reader"


class NodeAccount(pulumi.ComponentResource):
    """A service account instead of the project's default one, which may change nearly everything in many projects.

    Args:
        registries: the environment's own, first that of jobs' images.

    Attributes:
        ready: what must stand before a node does.
    """

    def __init__(
        self,
        name: str,
        plan: EnvironmentPlan,
        account: NodeAccountPlan,
        *,
        registries: Sequence[gcp.artifactregistry.Repository],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:NodeAccount", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        made = gcp.serviceaccount.Account(
            name,
            account_id=account.account_id,
            display_name=f"encamp nodes of {plan.name}",
            project=plan.project,
            opts=child,
        )
        self.ready: list[pulumi.Resource] = [
            gcp.projects.IAMMember(
                f"{name}-{role.rpartition('.')[2]}", project=plan.project, role=role, member=made.member, opts=child
            )
            for role in account.project_roles
        ]
        self.ready += [
            gcp.artifactregistry.RepositoryIamMember(
                called,
                project=plan.project,
                location=plan.region,
                repository=registry.repository_id,
                role=_READER,
                member=made.member,
                opts=child,
            )
            for called, registry in zip((name, f"{name}-docker-hub"), registries, strict=False)
        ]
        for full_name in account.repositories:
            _, project, _, location, _, repository = full_name.split("/")
            gcp.artifactregistry.RepositoryIamMember(
                f"{name}-{project}-{location}-{repository}",
                project=project,
                location=location,
                repository=repository,
                role=_READER,
                member=made.member,
                opts=child,
            )
        self.register_outputs({})
