"""Reads the addresses of targets: from this process's variables, or from Secret Manager.

An address is an Apprise URL and holds the token of its service. Nothing here writes one into an error.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from encamp.cloud.secrets import secret_text
from encamp.errors import EncampError, EngineError, UsageError
from encamp.retries import SHORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.cloud.rest import GoogleClient
    from encamp.spec.environment.notices import NoticeTargetSpec

#: How long Secret Manager may take for all addresses of one job together.
SECONDS = 10.0


def read_addresses(
    targets: Iterable[NoticeTargetSpec], client: GoogleClient, environ: Mapping[str, str], *, seconds: float = SECONDS
) -> dict[str, str | EncampError]:
    """The Apprise URL of each target by its name, or why there is none within ``seconds``.

    Secret Manager is asked in threads: one that hangs is left behind.
    """
    quick = client.with_policy(SHORT, lambda _: None)
    found: dict[str, str | EncampError] = {}
    threads = {
        one.name: threading.Thread(target=_read, args=(one, quick, environ, found), daemon=True) for one in targets
    }
    for thread in threads.values():
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(0.0, end - time.monotonic()))
    late = EngineError(f"Secret Manager gave no answer within {seconds:g} s")
    return {name: found.get(name, late) for name in threads}


def _read(
    target: NoticeTargetSpec, client: GoogleClient, environ: Mapping[str, str], found: dict[str, str | EncampError]
) -> None:
    try:
        found[target.name] = _address_of(target, client, environ)
    except EncampError as error:
        found[target.name] = error


def _address_of(target: NoticeTargetSpec, client: GoogleClient, environ: Mapping[str, str]) -> str:
    if target.secret is not None:
        return secret_text(client, target.secret).strip()
    address = environ.get(target.variable, "").strip()
    if not address:
        hint = "its value is an Apprise URL: docs/notices.md"
        raise UsageError(f"{target.variable} is not set here", where=target.name, hint=hint)
    return address
