"""Keys of Cloud KMS, who may use them, and the service agents that do.

Key rings and keys are never deleted: a destroyed key keeps its name, and so does its ring.
Source: cloud.google.com/kms/docs/destroy-restore and cloud.google.com/kms/docs/faq (why rings cannot be deleted).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT, labels_rule
from encamp.sandbox.cloud.gcp.member_types import MEMBER_RULES, MemberBackend
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule, choice_rule, pattern_rule
from encamp.sandbox.cloud.gcp.stored import StoredBackend
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_RINGS = "cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings"
_KEYS = f"{_RINGS}.cryptoKeys"
_NAME = r"[a-zA-Z0-9_-]{1,63}"
_NAME_PROBLEM = "must be 1 to 63 letters, digits, _ and -"
_SHORTEST_ROTATION_SECONDS = 86400
_PURPOSES = (
    "ENCRYPT_DECRYPT", "ASYMMETRIC_SIGN", "ASYMMETRIC_DECRYPT", "MAC", "RAW_ENCRYPT_DECRYPT", "KEY_ENCAPSULATION",
)  # fmt: skip
_USER_ROLES = ("roles/cloudkms.cryptoKeyEncrypterDecrypter", "roles/cloudkms.admin", "roles/owner")
#: Service agents by the service whose they are: cloud.google.com/iam/docs/service-agents.
AGENTS: Final = {
    "artifactregistry": "gcp-sa-artifactregistry",
    "compute": "compute-system",
    "container": "container-engine-robot",
    "storage": "gs-project-accounts",
}


def service_agent(service: str, project: str) -> str:
    """The e-mail of the agent by which a service of Google's works in a project."""
    return f"service-{project_number(project)}@{AGENTS[service]}.iam.gserviceaccount.com"


class _KeptBackend(StoredBackend):
    """What Pulumi forgets and Cloud KMS keeps."""

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Forget it; of a key, destroy the versions."""
        del resource_id
        name = self.full_name(inputs, context)
        if self.kind == "cryptoKey" and context.cloud.store.find(name):
            facts = {**context.cloud.store.get(name).body["facts"], "destroyed": True}
            context.cloud.store.merge(name, {"facts": facts})


KEY_RING: Final = ResourceType(
    "gcp:kms/keyRing:KeyRing",
    wheel=("pulumi_gcp.kms", "KeyRing"),
    backend=_KeptBackend(
        kind="keyRing",
        full_name=lambda inputs, context: (
            f"projects/{context.project}/locations/{inputs['location']}/keyRings/{inputs['name']}"
        ),
    ),
    required=("location",),
    immutable=("name", "project", "location"),
    computed=(),
    rules=(PROJECT, pattern_rule("name", "name", _NAME, f"{_RINGS}/create", _NAME_PROBLEM)),
    autoname="name",
)


def _rotation(inputs: Properties, _: Context) -> Problem:
    period = inputs.get("rotationPeriod")
    if period is None:
        return None
    found = re.fullmatch(r"(\d+)(\.\d+)?s", str(period))
    if found is None:
        return f'"rotation_period" ("{period}") must be seconds with an s, such as 7776000s'
    if int(found[1]) < _SHORTEST_ROTATION_SECONDS:
        return f"rotation period must be greater than or equal to {_SHORTEST_ROTATION_SECONDS}s"
    if inputs.get("purpose") not in (None, "ENCRYPT_DECRYPT"):
        return "a rotation period can be set on keys of the purpose ENCRYPT_DECRYPT only"
    return None


def _primary(resource: CloudResource, context: Context) -> dict[str, Any]:
    del context
    state = "DESTROYED" if resource.body["facts"].get("destroyed") else "ENABLED"
    return {"primaries": [{"name": f"{resource.name}/cryptoKeyVersions/1", "state": state}]}


CRYPTO_KEY: Final = ResourceType(
    "gcp:kms/cryptoKey:CryptoKey",
    wheel=("pulumi_gcp.kms", "CryptoKey"),
    backend=_KeptBackend(
        kind="cryptoKey",
        full_name=lambda inputs, _context: f"{inputs['keyRing']}/cryptoKeys/{inputs['name']}",
        outputs=_primary,
        parents=lambda inputs, _context: [str(inputs["keyRing"])],
        labels="labels",
        defaults={"purpose": "ENCRYPT_DECRYPT", "importOnly": False, "destroyScheduledDuration": "2592000s"},
    ),
    required=("keyRing",),
    immutable=("name", "keyRing", "purpose", "importOnly", "destroyScheduledDuration", "cryptoKeyBackend"),
    computed=("primaries", "effectiveLabels", "pulumiLabels"),
    rules=(
        DELETION_POLICY,
        labels_rule("labels"),
        pattern_rule("name", "name", _NAME, f"{_KEYS}/create", _NAME_PROBLEM),
        choice_rule("purpose", "purpose", _PURPOSES, _KEYS),
        Rule("rotation", "cloud.google.com/kms/docs/key-rotation", ("rotationPeriod", "purpose"), _rotation),
    ),
    autoname="name",
    labels="labels",
)

KEY_MEMBER: Final = ResourceType(
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
    wheel=("pulumi_gcp.kms", "CryptoKeyIAMMember"),
    backend=MemberBackend(
        resource=lambda inputs, _context: str(inputs["cryptoKeyId"]),
        prefix=lambda inputs, _context: str(inputs["cryptoKeyId"]),
        exists=lambda inputs, context: context.cloud.store.get(str(inputs["cryptoKeyId"])),
    ),
    required=("cryptoKeyId", "role", "member"),
    immutable=("cryptoKeyId", "role", "member", "condition"),
    computed=("etag",),
    rules=MEMBER_RULES,
)


class _IdentityBackend(StoredBackend):
    """Agents that were asked for stay; asking again answers with the same one."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Ask for the agent of an enabled service."""
        if inputs["service"].partition(".")[0] not in AGENTS:
            raise GoogleError(400, f"the sandbox knows no service agent of {inputs['service']}")
        if context.cloud.store.find(self.full_name(inputs, context)):
            return await self.update("", inputs, inputs, context)
        return await super().create(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Nobody can delete an agent."""


def _agent_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    email = service_agent(resource.body["inputs"]["service"].partition(".")[0], context.project)
    return {"email": email, "member": f"serviceAccount:{email}"}


SERVICE_IDENTITY: Final = ResourceType(
    "gcp:projects/serviceIdentity:ServiceIdentity",
    wheel=("pulumi_gcp.projects", "ServiceIdentity"),
    backend=_IdentityBackend(
        kind="serviceIdentity",
        full_name=lambda inputs, context: f"projects/{context.project}/serviceIdentities/{inputs['service']}",
        outputs=_agent_outputs,
        parents=lambda inputs, context: [f"projects/{context.project}/services/{inputs['service']}"],
        identifier=lambda inputs, context: f"projects/{context.project}/services/{inputs['service']}",
        by_id=lambda resource_id: resource_id.replace("/services/", "/serviceIdentities/"),
    ),
    required=("service",),
    immutable=("service", "project"),
    computed=("email", "member"),
    rules=(PROJECT,),
)


def key_use_rule(service: str, reads: str, key_of: Callable[[Properties], object], source: str) -> Rule:
    """A rule: what names a key needs the key, with its versions, and its service's agent among those who may use it.

    Args:
        service: whose agent it is.
        reads: the property with the key's name.
        key_of: gives the name; None for Google's own keys.
        source: the page that says so.
    """

    def test(inputs: Properties, context: Context) -> Problem:
        name = key_of(inputs)
        if name is None:
            return None
        key = context.cloud.store.find(str(name))
        if key is None or key.kind != "cryptoKey":
            return f"Cloud KMS key '{name}' does not exist."
        if key.body["facts"].get("destroyed"):
            return f"Cloud KMS key '{name}' is not enabled: its versions are destroyed."
        agent = f"serviceAccount:{service_agent(service, context.project)}"
        policies = context.cloud.policies
        where = (key.name, key.name.rpartition("/cryptoKeys/")[0], f"projects/{context.project}")
        if any(policies.has(resource, role, agent, None) for resource in where for role in _USER_ROLES):
            return None
        return f"Permission denied on Cloud KMS key '{name}': {agent} may not use it."

    return Rule("use of the key", source, (reads,), test, api=True, code=403, reason="forbidden")


KMS_TYPES: Final = (KEY_RING, CRYPTO_KEY, KEY_MEMBER, SERVICE_IDENTITY)
