"""Artifact Registry: repositories; there are no images behind them.

Source: cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import not_found
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule, choice, labels, name_pattern
from encamp_sandbox.cloud.rest.styles import LongRunning, operation_shown
from encamp_sandbox.cloud.rest.values import default
from encamp_sandbox.cloud.services.kms.use import key_use

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.collection import Body
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_FORMATS = ("DOCKER", "MAVEN", "NPM", "PYTHON", "APT", "YUM", "KFP", "GO", "GENERIC", "GOOGET", "RUBY")
_MODES = ("STANDARD_REPOSITORY", "VIRTUAL_REPOSITORY", "REMOTE_REPOSITORY", "AOSS_REPOSITORY")


def _identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
    """Take the id from the query, in either spelling."""
    return ask.call.query.get("repositoryId") or ask.call.query.get("repository_id") or "", body


def _remote(change: Change) -> Problem:
    if (change.at("mode") == "REMOTE_REPOSITORY") == bool(change.at("remoteRepositoryConfig")):
        return None
    return "remote_repository_config is for repositories of mode REMOTE_REPOSITORY, and these need it"


def _fill(change: Change) -> None:
    default(change.body, {"mode": "STANDARD_REPOSITORY", "sizeBytes": "0"})


def _show(repository: CloudResource, cloud: Cloud) -> dict[str, Any]:
    location = repository.name.split("/")[3]
    form = str(repository.body["format"]).lower()
    return {
        "createTime": repository.created,
        "updateTime": repository.updated,
        "registryUri": f"{location}-{form}.pkg.dev/{cloud.project}/{repository.short_name}",
        "vulnerabilityScanningConfig": {"enablementState": "SCANNING_DISABLED"},
    }


REPOSITORIES: Final = Collection(
    kind="repository",
    path="projects/{project}/locations/{location}/repositories",
    style=LongRunning(),
    permission="artifactregistry.repositories",
    identify=_identify,
    rules=(
        name_pattern(
            "registry-repository-ids",
            r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
            '"repository_id" ("{value}") must be at most 63 lowercase letters, digits and hyphens'
            " and begin with a letter",
        ),
        labels(),
        choice("registry-formats", "format", _FORMATS),
        choice("registry-modes", "mode", _MODES),
        Rule("registry-remote-repositories", _remote),
        key_use("artifactregistry", "kmsKeyName"),
    ),
    fill=_fill,
    show=_show,
    update=Update.MASK,
    fixed=("format", "mode", "kmsKeyName"),
    policy=True,
)


async def _operation(ask: Ask) -> dict[str, Any]:
    found = ask.cloud.operations.find(ask.name)
    if found is None:
        raise not_found(ask.name)
    return operation_shown(found)


def artifact_registry(cloud: Cloud) -> Api:
    """Serve artifactregistry.googleapis.com."""
    operations = Route("projects/{project}/locations/{location}/operations/{operation}", ("GET",), _operation)
    return Api(cloud, "artifactregistry", ("v1", "v1beta2"), (REPOSITORIES,), (operations,))
