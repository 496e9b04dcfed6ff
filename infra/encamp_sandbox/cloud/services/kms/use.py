"""The use of keys: a resource needs its key, with its versions, and the service's agent among the key's users.

Source: cloud.google.com/kms/docs/cmek and each service's page on customer-managed keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.rules import Rule
from encamp_sandbox.cloud.rest.values import at
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Change, Problem

_USERS = ("roles/cloudkms.cryptoKeyEncrypterDecrypter", "roles/cloudkms.admin", "roles/owner")
_BELIEF = "kms-agents-need-the-key"
_FORBIDDEN = 403
#: Service agents by the service whose they are: cloud.google.com/iam/docs/service-agents.
AGENTS: Final = {
    "artifactregistry": "gcp-sa-artifactregistry",
    "compute": "compute-system",
    "container": "container-engine-robot",
    "logging": "gcp-sa-logging",
    "storage": "gs-project-accounts",
}


def service_agent(service: str, project: str) -> str:
    """Return the e-mail of the agent by which a service of Google's works in a project."""
    return f"service-{project_number(project)}@{AGENTS.get(service, f'gcp-sa-{service}')}.iam.gserviceaccount.com"


def key_problem(cloud: Cloud, service: str, name: object) -> Problem:
    """Return why a service cannot use a key, None if it can or if none is named."""
    if not name:
        return None
    key = cloud.store.find(str(name))
    if key is None or key.kind != "cryptoKey":
        return f"Cloud KMS key '{name}' does not exist."
    if key.body.get("_destroyed"):
        return f"Cloud KMS key '{name}' is not enabled: its versions are destroyed."
    agent = f"serviceAccount:{service_agent(service, cloud.project)}"
    where = (key.name, key.parent, f"projects/{cloud.project}")
    for resource in where:
        for binding in cloud.policies.bindings(resource):
            if binding.role in _USERS and agent in binding.members and not binding.condition:
                return None
    return f"Permission denied on Cloud KMS key '{name}': {agent} may not use it."


def key_use(service: str, path: str) -> Rule:
    """Return a rule: the key that a field names exists and is the service's agent's to use."""

    def test(change: Change) -> Problem:
        name = change.at(path)
        if change.before is not None and at(change.before, path) == name:
            return None
        return key_problem(change.cloud, service, name)

    return Rule(_BELIEF, test, code=_FORBIDDEN, reason="forbidden")


def check_key(cloud: Cloud, service: str, name: object) -> None:
    """Refuse a key that a service cannot use.

    Raises:
        GoogleError: 403.
    """
    if problem := key_problem(cloud, service, name):
        raise GoogleError(_FORBIDDEN, problem, reason="forbidden", belief=_BELIEF)
