"""What Google refuses whatever the type: each refusal with its source.

What is refused of one type's inputs stands in the type's own rules (``gcp/model.py``, ``Rule``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from encamp.sandbox.cloud.errors import GoogleError


@dataclass(frozen=True)
class Refusal:
    """One refusal.

    Attributes:
        name: what it is about.
        source: the public page that says so.
        text: the message, with what it names in braces.
        code: HTTP status of the API; None where the provider refuses before it asks.
        reason: Google's reason word, if not the usual one.
    """

    name: str
    source: str
    text: str
    code: int | None
    reason: str | None = None

    def error(self, **named: str) -> GoogleError:
        """The API's answer."""
        return GoogleError(self.code or 0, self.text.format(**named), reason=self.reason)


_RESOURCES = "github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r"

DUPLICATE: Final = Refusal(
    "duplicate id", "cloud.google.com/apis/design/errors#handling_errors", "Already exists: {name}.", 409
)
MISSING: Final = Refusal(
    "missing parent", "cloud.google.com/apis/design/errors#handling_errors", "Not found: {name}.", 404
)
IN_USE: Final = Refusal(
    "in use",
    "cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-in-use",
    "The {kind} resource '{name}' is already being used by '{user}'",
    400,
    "resourceInUseByAnotherResource",
)
PROTECTED: Final = Refusal(
    "deletion protection",
    f"{_RESOURCES}/container_cluster.html.markdown (deletion_protection)",
    "Cannot destroy the resource because deletion_protection is set to true.",
    None,
)
PREVENTED: Final = Refusal(
    "deletion policy",
    f"{_RESOURCES} (deletion_policy)",
    "the resource has deletion_policy PREVENT and cannot be deleted",
    None,
)
UNKNOWN_ACCOUNT: Final = Refusal(
    "unknown member",
    "cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts/setIamPolicy",
    "Service account {email} does not exist.",
    400,
)
UNKNOWN_POOL: Final = Refusal(
    "unknown identity pool",
    "cloud.google.com/kubernetes-engine/docs/how-to/workload-identity#authenticating_to",
    "Identity Pool does not exist ({pool}).",
    400,
)
MALFORMED_MEMBER: Final = Refusal(
    "malformed member",
    "cloud.google.com/iam/docs/principal-identifiers",
    "Invalid value for member: {member}.",
    400,
)
ODD_ROLE: Final = Refusal(
    "odd role",
    "cloud.google.com/iam/docs/roles-overview",
    "Role {role} is not supported for this resource.",
    400,
)
UNKNOWN_ROLE: Final = Refusal(
    "unknown role",
    "cloud.google.com/iam/docs/troubleshoot-policies",
    "The role named {role} was not found.",
    400,
)

REFUSALS: Final = (
    DUPLICATE, MISSING, IN_USE, PROTECTED, PREVENTED, UNKNOWN_ACCOUNT, UNKNOWN_POOL, MALFORMED_MEMBER, ODD_ROLE,
    UNKNOWN_ROLE,
)  # fmt: skip
