"""Who may read and write an image registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp.sandbox.cloud.gcp.common import PROJECT
from encamp.sandbox.cloud.gcp.member_types import MEMBER_RULES, MemberBackend
from encamp.sandbox.cloud.gcp.model import ResourceType, short

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context
    from encamp.sandbox.provider import Properties


def _repository(inputs: Properties, context: Context) -> str:
    location = context.location_of(inputs)
    return f"projects/{context.project}/locations/{location}/repositories/{short(inputs['repository'])}"


REPOSITORY_MEMBER: Final = ResourceType(
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
    wheel=("pulumi_gcp.artifactregistry", "RepositoryIamMember"),
    backend=MemberBackend(
        resource=_repository,
        prefix=_repository,
        exists=lambda inputs, context: context.cloud.store.get(_repository(inputs, context)),
    ),
    required=("repository", "role", "member"),
    immutable=("repository", "location", "project", "role", "member", "condition"),
    computed=("etag",),
    rules=(PROJECT, *MEMBER_RULES),
)
