"""Tokens of other people than the sandbox's administrator, to try their permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from encamp.errors import SandboxError, UsageError
from encamp_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

_TIMEOUT_SECONDS = 10.0


def token_of(layout: Layout, member: str | None) -> str:
    """Return an access token for an hour; of the administrator, which does not expire, where nobody is named.

    Args:
        layout: the sandbox.
        member: ``user:`` or ``serviceAccount:`` with an e-mail; an e-mail alone is a user's.

    Raises:
        UsageError: it is no member.
        SandboxError: the sandbox is not up.
    """
    if member is None:
        return layout.token
    named = member if ":" in member else f"user:{member}"
    url = f"http://{LOOPBACK}:{layout.ports.front}/encamp/v1/memberTokens"
    headers = {"authorization": f"Bearer {layout.token}"}
    try:
        answer = httpx.post(url, json={"member": named}, headers=headers, trust_env=False, timeout=_TIMEOUT_SECONDS)
    except httpx.HTTPError:
        raise SandboxError("the sandbox gives no tokens", where=str(layout.root), hint="encamp sandbox up") from None
    if answer.status_code == httpx.codes.BAD_REQUEST:
        hint = "write user:ana@example.com or serviceAccount:ci@my-project.iam.gserviceaccount.com"
        raise UsageError(f"{named!r} is nobody who has a token", where="--for", hint=hint)
    if answer.status_code != httpx.codes.OK:
        raise SandboxError(f"the sandbox gives no tokens: {answer.status_code}", where=str(layout.root))
    return str(answer.json()["accessToken"])
