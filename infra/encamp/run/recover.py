"""Logs that no pod can give any more, from Cloud Logging.

A node that is idle goes with its pods' logs, and a job that nobody watched has often ended before. What the spool has
is kept unless Cloud Logging has at least as much.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.cloud.logging import LoggedLine, container_lines
from encamp.errors import EncampError
from encamp.run.replicas import CONTAINER, INDEX_LABEL, JOBSET_LABEL, ROLE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.rest import GoogleClient
    from encamp.run.intent import Intent
    from encamp.run.stream import LogStreams

#: How often a log is asked for until two answers agree: its last lines may be on their way.
_ATTEMPTS = 5
_PAUSE_SECONDS = 2.0


def recover_logs(
    client: GoogleClient,
    intent: Intent,
    streams: LogStreams,
    show: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Complete, from Cloud Logging, every log that is not whole. What cannot be had keeps its reason."""
    for name in intent.replicas:
        log = streams.log(name)
        if log.state["complete"]:
            continue
        try:
            lines = _settled(client, intent, name, sleep)
        except EncampError as error:
            show(f"{name}: Cloud Logging does not help: {error.what}")
            continue
        if lines and log.replace((line.pod, line.text) for line in lines):
            show(f"{name}: its log was taken from Cloud Logging ({len(lines)} lines)")


def _settled(client: GoogleClient, intent: Intent, name: str, sleep: Callable[[float], None]) -> list[LoggedLine]:
    before: list[LoggedLine] = []
    for attempt in range(_ATTEMPTS):
        found = _lines(client, intent, name)
        if not found or found == before:
            break
        before = found
        if attempt + 1 < _ATTEMPTS:
            sleep(_PAUSE_SECONDS)
    return found


def _lines(client: GoogleClient, intent: Intent, name: str) -> list[LoggedLine]:
    role, _, index = name.partition("-replica-")
    labels = {JOBSET_LABEL: intent.name, ROLE_LABEL: role, INDEX_LABEL: index}
    return list(
        container_lines(
            client,
            intent.project,
            cluster=intent.cluster.rpartition("/")[2],
            namespace=intent.namespace,
            container=CONTAINER,
            labels=labels,
        )
    )
