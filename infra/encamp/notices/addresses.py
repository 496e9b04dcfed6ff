"""Reads the addresses of targets: from this process's variables, or from Secret Manager.

An address is an Apprise URL and holds the token of its service. Nothing here writes one into an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cloud.secrets import secret_text
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.cloud.rest import GoogleClient
    from encamp.spec.environment.notices import NoticeTargetSpec


def address_of(target: NoticeTargetSpec, client: GoogleClient, environ: Mapping[str, str]) -> str:
    """The target's Apprise URL.

    Raises:
        UsageError: the variable is not set here.
        EngineError: Secret Manager does not give it.
    """
    if target.secret is not None:
        return secret_text(client, target.secret).strip()
    address = environ.get(target.variable, "").strip()
    if not address:
        hint = "its value is an Apprise URL: docs/notices.md"
        raise UsageError(f"{target.variable} is not set here", where=target.name, hint=hint)
    return address
