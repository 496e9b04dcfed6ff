"""Enabled services, service accounts and image registries."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT, labels_rule
from encamp.sandbox.cloud.gcp.kms_types import key_use_rule
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule, choice_rule, pattern_rule
from encamp.sandbox.cloud.gcp.stored import StoredBackend
from encamp.sandbox.cloud.identity_api import delete_account

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties


class _ServiceBackend(StoredBackend):
    """A service that is enabled already is taken over, and stays enabled if that was asked for."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Enable it."""
        if context.cloud.store.find(self.full_name(inputs, context)):
            return await self.update("", inputs, inputs, context)
        return await super().create(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Disable it, if that was asked for."""
        if inputs.get("disableOnDestroy"):
            await super().delete(resource_id, inputs, context)


SERVICE: Final = ResourceType(
    "gcp:projects/service:Service",
    wheel=("pulumi_gcp.projects", "Service"),
    backend=_ServiceBackend(
        kind="service",
        full_name=lambda inputs, context: f"projects/{context.project}/services/{inputs['service']}",
        identifier=lambda inputs, context: f"{context.project}/{inputs['service']}",
        by_id=lambda resource_id: "projects/{}/services/{}".format(*resource_id.split("/")[-2:]),
    ),
    required=("service",),
    immutable=("service", "project"),
    computed=(),
    rules=(
        PROJECT,
        pattern_rule(
            "name", "service", r"[a-z0-9-]+(\.[a-z0-9-]+)+",
            "cloud.google.com/service-usage/docs/reference/rest/v1/services",
            "is no name of a service, such as container.googleapis.com",
        ),
    ),
)  # fmt: skip


def _email(inputs: Properties, context: Context) -> str:
    return f"{inputs['accountId']}@{context.project}.iam.gserviceaccount.com"


def _account_facts(inputs: Properties, context: Context) -> dict[str, Any]:
    return {"email": _email(inputs, context), "uniqueId": str(10**20 + secrets.randbelow(9 * 10**20))}


class _AccountBackend(StoredBackend):
    """Service accounts: one that exists may be taken over, and a deleted one stays in policies as deleted."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it, or take over one that exists if that was asked for."""
        if inputs.get("createIgnoreAlreadyExists") and context.cloud.store.find(self.full_name(inputs, context)):
            return await self.update("", inputs, inputs, context)
        return await super().create(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it; what was bound to it stays behind as a deleted member."""
        del resource_id
        name = self.full_name(inputs, context)
        with context.cloud.database.transaction():
            if context.cloud.store.find(name):
                delete_account(context.cloud.store, context.cloud.policies, name)


def _account_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    del context
    facts = resource.body["facts"]
    return {
        "email": facts["email"],
        "member": f"serviceAccount:{facts['email']}",
        "name": resource.name,
        "uniqueId": facts["uniqueId"],
    }


def _text_limit(key: str, limit: int) -> Rule:
    def test(inputs: Properties, _: Context) -> Problem:
        text = inputs.get(key) or ""
        return None if len(str(text).encode()) <= limit else f"{key} is longer than {limit} bytes"

    return Rule(key, "cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts", (key,), test)


ACCOUNT: Final = ResourceType(
    "gcp:serviceaccount/account:Account",
    wheel=("pulumi_gcp.serviceaccount", "Account"),
    backend=_AccountBackend(
        kind="serviceAccount",
        full_name=lambda inputs, context: f"projects/{context.project}/serviceAccounts/{_email(inputs, context)}",
        facts=_account_facts,
        outputs=_account_outputs,
        defaults={"disabled": False, "displayName": "", "description": ""},
    ),
    required=("accountId",),
    immutable=("accountId", "project"),
    computed=("email", "member", "name", "uniqueId"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        pattern_rule(
            "id", "accountId", r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])",
            "cloud.google.com/iam/docs/service-accounts-create#creating",
            "must be 6 to 30 lowercase letters, digits and hyphens, begin with a letter and not end with a hyphen",
        ),
        _text_limit("displayName", 100),
        _text_limit("description", 256),
    ),
)  # fmt: skip

_FORMATS = ("DOCKER", "MAVEN", "NPM", "PYTHON", "APT", "YUM", "KFP", "GO", "GENERIC", "GOOGET", "RUBY")
_REPOSITORY_SOURCE = "cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories"


def _repository_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    inputs = resource.body["inputs"]
    location = context.location_of(inputs)
    uri = f"{location}-{str(inputs['format']).lower()}.pkg.dev/{context.project}/{inputs['repositoryId']}"
    times = {"createTime": resource.created, "updateTime": resource.updated}
    return {"name": inputs["repositoryId"], "location": location, "registryUri": uri, **times}


def _remote(inputs: Properties, _: Context) -> Problem:
    remote = inputs.get("mode") == "REMOTE_REPOSITORY"
    if remote == bool(inputs.get("remoteRepositoryConfig")):
        return None
    return "remote_repository_config is for repositories of mode REMOTE_REPOSITORY, and these need it"


REPOSITORY: Final = ResourceType(
    "gcp:artifactregistry/repository:Repository",
    wheel=("pulumi_gcp.artifactregistry", "Repository"),
    backend=StoredBackend(
        kind="repository",
        full_name=lambda inputs, context: (
            f"projects/{context.project}/locations/{context.location_of(inputs)}/repositories/{inputs['repositoryId']}"
        ),
        outputs=_repository_outputs,
        defaults={"mode": "STANDARD_REPOSITORY"},
        labels="labels",
    ),
    required=("format", "repositoryId"),
    immutable=("repositoryId", "format", "location", "project", "mode", "kmsKeyName", "mavenConfig"),
    computed=("name", "createTime", "updateTime", "registryUri", "effectiveLabels", "pulumiLabels"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        labels_rule("labels"),
        choice_rule("format", "format", _FORMATS, _REPOSITORY_SOURCE),
        Rule("remote", _REPOSITORY_SOURCE, ("mode", "remoteRepositoryConfig"), _remote, api=True),
        pattern_rule(
            "id", "repositoryId", r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", _REPOSITORY_SOURCE,
            "must be at most 63 lowercase letters, digits and hyphens and begin with a letter",
        ),
        key_use_rule(
            "artifactregistry", "kmsKeyName", lambda inputs: inputs.get("kmsKeyName"),
            "cloud.google.com/artifact-registry/docs/cmek",
        ),
    ),
    labels="labels",
)  # fmt: skip
