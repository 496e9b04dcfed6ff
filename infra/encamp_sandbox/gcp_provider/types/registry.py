"""Repositories of Artifact Registry.

Source: hashicorp/terraform-provider-google-beta google-beta/services/artifactregistry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, ResourceType

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties


def _show(answer: Body, _inputs: Properties, _context: Context) -> Body:
    name = str(answer["name"])
    return {"name": name.rpartition("/")[2], "repositoryId": name.rpartition("/")[2], "location": name.split("/")[3]}


REPOSITORY: Final = ResourceType(
    "gcp:artifactregistry/repository:Repository",
    "artifactregistry/v1",
    lambda inputs, context: (
        f"projects/{context.project_of(inputs)}/locations/{context.location_of(inputs)}/repositories"
    ),
    TypeMapping(own=frozenset({"project", "deletionPolicy", "location", "repositoryId"})),
    short_name=lambda inputs: str(inputs["repositoryId"]),
    prepare=lambda body, inputs, _context: (body, {"repository_id": str(inputs["repositoryId"])}),
    show=_show,
    wait=True,
    plain_update=True,
    change=Change.MASK,
    labels="labels",
)
