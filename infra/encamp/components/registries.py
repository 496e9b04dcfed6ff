"""The environment's registries: one for images of jobs, and one through which images of Docker Hub come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.duration import Duration

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

#: What was fetched so long ago is deleted, and fetched again when a job asks for it.
_KEPT = Duration.of(90 * 86_400)


def own_registry(name: str, plan: EnvironmentPlan, opts: pulumi.ResourceOptions) -> gcp.artifactregistry.Repository:
    """Make the registry of the jobs' own images, or read the one that is adopted."""
    if "registry" in plan.adopted:
        full_name = f"projects/{plan.project}/locations/{plan.region}/repositories/{plan.registry}"
        return gcp.artifactregistry.Repository.get(name, full_name, opts=opts)
    return gcp.artifactregistry.Repository(
        name,
        repository_id=plan.registry,
        location=plan.region,
        format="DOCKER",
        description="Images of training jobs",
        kms_key_name=_key(plan),
        labels=dict(plan.labels),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=plan.protect)),
    )


def docker_hub_cache(
    name: str, plan: EnvironmentPlan, repository: str, opts: pulumi.ResourceOptions
) -> gcp.artifactregistry.Repository:
    """Make a repository that fetches images of Docker Hub once (artifact-registry-remote).

    Credentials that its owner gives it stay.
    """
    kept = pulumi.ResourceOptions(ignore_changes=["remoteRepositoryConfig.upstreamCredentials"])
    return gcp.artifactregistry.Repository(
        f"{name}-docker-hub",
        repository_id=repository,
        location=plan.region,
        format="DOCKER",
        mode="REMOTE_REPOSITORY",
        description="Images of Docker Hub, fetched once",
        remote_repository_config={"docker_repository": {"public_repository": "DOCKER_HUB"}},
        cleanup_policies=[{"id": "old", "action": "DELETE", "condition": {"older_than": str(_KEPT)}}],
        kms_key_name=_key(plan),
        labels=dict(plan.labels),
        opts=pulumi.ResourceOptions.merge(opts, kept),
    )


def _key(plan: EnvironmentPlan) -> str | None:
    return plan.key.full_name if plan.key is not None else None
