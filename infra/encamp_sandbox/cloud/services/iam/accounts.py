"""Service accounts. One that was deleted stays in policies as deleted.

Sources: cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts,
cloud.google.com/iam/quotas (100 accounts a project).
"""

from __future__ import annotations

import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.collection import Body, Collection, Update
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule
from encamp_sandbox.cloud.rest.styles import Plain

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

MOST_ACCOUNTS: Final = 100
_ID = re.compile(r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])")
_LONGEST = {"displayName": 100, "description": 256}


def _identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
    account = str(body.get("accountId") or "")
    if not _ID.fullmatch(account):
        message = (
            f'"account_id" ("{account}") must be 6 to 30 lowercase letters, digits and hyphens, begin with a letter'
            " and not end with a hyphen"
        )
        raise GoogleError(400, message, belief="iam-account-ids")
    draft = {**(body.get("serviceAccount") or {})}
    return f"{account}@{ask.cloud.project}.iam.gserviceaccount.com", draft


def _texts(change: Change) -> Problem:
    for key, limit in _LONGEST.items():
        if len(str(change.at(key) or "").encode()) > limit:
            return f"{key} is longer than {limit} bytes"
    return None


def _most(change: Change) -> Problem:
    if change.before is None and len(change.cloud.store.all_of("serviceAccount")) >= MOST_ACCOUNTS:
        return f"Maximum number of service accounts on project reached: {MOST_ACCOUNTS}."
    return None


def _fill(change: Change) -> None:
    email = change.name.rpartition("/")[2]
    unique = str(10**20 + secrets.randbelow(9 * 10**20))
    change.body.update(projectId=change.project, uniqueId=unique, email=email, oauth2ClientId=unique)


def _delete(account: CloudResource, cloud: Cloud) -> None:
    """Delete an account; its bindings elsewhere stay and say that it is gone."""
    cloud.store.delete(account.name)
    cloud.policies.mark_deleted(account.body["email"], account.body["uniqueId"])


class _Accounts(Collection):
    """Accounts go by their e-mail or their unique id, with any project."""

    def find(self, name: str, cloud: Cloud) -> CloudResource:
        """Return the account of a full name."""
        identifier = name.rpartition("/")[2]
        if identifier.isdigit():
            for found in cloud.store.all_of(self.kind):
                if found.body["uniqueId"] == identifier:
                    return found
            raise GoogleError(404, f"Unknown service account: {identifier}.", belief="api-missing-is-404")
        return super().find(name, cloud)

    def shown(self, resource: CloudResource, cloud: Cloud) -> Body:
        """Return an account without empty texts."""
        return {key: value for key, value in super().shown(resource, cloud).items() if value}


ACCOUNTS: Final = _Accounts(
    kind="serviceAccount",
    path="projects/{project}/serviceAccounts",
    style=Plain(etag=True),
    permission="iam.serviceAccounts",
    identify=_identify,
    rules=(
        Rule("iam-texts-of-accounts", _texts),
        Rule("iam-100-accounts-a-project", _most, code=429, reason="rateLimitExceeded", status="RESOURCE_EXHAUSTED"),
    ),
    fill=_fill,
    update=Update.MASK,
    unwrap=lambda body: body.get("serviceAccount", body),
    policy=True,
    deleted=_delete,
    list_of="accounts",
)


async def _patch(ask: Ask) -> dict[str, Any]:
    """Change what the body's mask names, which this API has beside the account."""
    ask.require("iam.serviceAccounts.update", ask.name)
    body = await ask.call.json()
    name = ACCOUNTS.find(ask.name, ask.cloud).name
    return ACCOUNTS.alter(ask.cloud, name, body.get("serviceAccount") or {}, mask=str(body.get("updateMask") or ""))


async def _switch(ask: Ask, *, disabled: bool) -> dict[str, Any]:
    ask.require(f"iam.serviceAccounts.{'disable' if disabled else 'enable'}", ask.name)
    ask.cloud.store.merge(ACCOUNTS.find(ask.name, ask.cloud).name, {"disabled": disabled})
    return {}


_ONE: Final = "projects/{project}/serviceAccounts/{serviceAccount}"
ACCOUNT_METHODS: Final = (
    Route(_ONE, ("PATCH",), _patch, operation="update"),
    Route(_ONE, ("POST",), partial(_switch, disabled=True), verb="disable", operation="update"),
    Route(_ONE, ("POST",), partial(_switch, disabled=False), verb="enable", operation="update"),
)
