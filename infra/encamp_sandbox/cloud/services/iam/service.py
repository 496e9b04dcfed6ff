"""IAM and the credentials of service accounts as two APIs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.services.iam.accounts import ACCOUNT_METHODS, ACCOUNTS
from encamp_sandbox.cloud.services.iam.custom_roles import ROLE_METHODS, ROLES
from encamp_sandbox.cloud.tokens import LIFETIME_SECONDS
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.tokens import Tokens


def iam(cloud: Cloud) -> Api:
    """Serve iam.googleapis.com."""
    return Api(cloud, "iam", ("v1",), (ACCOUNTS, ROLES), (*ACCOUNT_METHODS, *ROLE_METHODS))


def credentials(cloud: Cloud, tokens: Tokens) -> Api:
    """Serve iamcredentials.googleapis.com: access tokens for service accounts, without delegation."""
    one = "projects/{project}/serviceAccounts/{serviceAccount}"
    method = Route(one, ("POST",), partial(_generate, tokens=tokens), verb="generateAccessToken")
    return Api(cloud, "iamcredentials", ("v1",), (), (method, Route(f"{one}/allowedLocations", ("GET",), _everywhere)))


async def _everywhere(ask: Ask) -> dict[str, Any]:
    """Return no locations: no account of the sandbox is bound to regions. Belief: iam-allowed-locations."""
    ACCOUNTS.find(ask.name.removesuffix("/allowedLocations"), ask.cloud)
    return {"locations": [], "encodedLocations": "0x0"}


async def _generate(ask: Ask, *, tokens: Tokens) -> dict[str, Any]:
    account = ACCOUNTS.find(ask.name, ask.cloud)
    ask.require("iam.serviceAccounts.getAccessToken", account.name)
    asked = await ask.call.json()
    lifetime, scopes = _seconds(asked.get("lifetime")), " ".join(map(str, asked.get("scope") or ()))
    token, expires = tokens.issue(account.body["email"], lifetime, scopes)
    return {"accessToken": token, "expireTime": rfc3339(expires)}


def workload_principal(project: str, namespace: str, account: str) -> str:
    """Return a Kubernetes service account of the project's workload pool as a member of IAM bindings.

    Source: cloud.google.com/iam/docs/principal-identifiers.
    """
    pool = f"projects/{project_number(project)}/locations/global/workloadIdentityPools/{project}.svc.id.goog"
    return f"principal://iam.googleapis.com/{pool}/subject/ns/{namespace}/sa/{account}"


def rfc3339(seconds: float) -> str:
    """Return a time since the epoch as the APIs write it, in whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(lifetime: object) -> float:
    if lifetime in (None, ""):
        return LIFETIME_SECONDS
    text = str(lifetime)
    if not text.endswith("s") or not text[:-1].isdigit() or not 0 < int(text[:-1]) <= LIFETIME_SECONDS:
        raise GoogleError(400, f"lifetime has to be between 1s and {LIFETIME_SECONDS}s.")
    return int(text[:-1])
