"""Log entries: written, and listed by the filters that encamp and gcloud send.

Source: cloud.google.com/logging/docs/reference/v2/rest/v2/entries. Belief: logging-same-entry-once.
"""

from __future__ import annotations

import json
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp.cloud.log_filter import FilterError, matcher
from encamp_sandbox.cloud.calls import page
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.services.logging.exclusions import excluded_by
from encamp_sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.database import Database

#: The newest entries that are kept.
_KEPT = 100_000


def entry_routes(database: Database) -> Iterable[Route]:
    """Yield the methods of entries."""
    yield Route("entries", ("POST",), partial(_write, database=database), verb="write", operation="create")
    yield Route("entries", ("POST",), partial(_list, database=database), verb="list")


async def _write(ask: Ask, *, database: Database) -> dict[str, Any]:
    ask.require("logging.logEntries.create")
    body = await ask.call.json()
    shared = {key: body[key] for key in ("logName", "resource") if body.get(key)}
    excluded = excluded_by(ask.cloud)
    with database.transaction() as change:
        for given in body.get("entries") or ():
            entry = {**shared, **given, "labels": {**(body.get("labels") or {}), **(given.get("labels") or {})}}
            name = str(entry.get("logName") or "")
            if not name.startswith(f"projects/{ask.cloud.project}/logs/"):
                raise GoogleError(400, f"Invalid log name: {name or '(none)'}.")
            if any(matches(entry) for matches in excluded):
                continue
            received = timestamp()
            entry["timestamp"] = entry.get("timestamp") or received
            entry["insertId"] = entry.get("insertId") or f"{received}-{secrets.token_hex(4)}"
            entry["receiveTimestamp"] = received
            change.execute(
                "INSERT OR IGNORE INTO log_entries (log_name, timestamp, insert_id, body) VALUES (?, ?, ?, ?)",
                (name, entry["timestamp"], entry["insertId"], json.dumps(entry)),
            )
        change.execute("DELETE FROM log_entries WHERE id <= (SELECT MAX(id) FROM log_entries) - ?", (_KEPT,))
    return {}


async def _list(ask: Ask, *, database: Database) -> dict[str, Any]:
    ask.require("logging.logEntries.list")
    body = await ask.call.json()
    for name in body.get("resourceNames") or [f"projects/{ask.cloud.project}"]:
        if str(name).split("/")[:2] != ["projects", ask.cloud.project]:
            raise GoogleError(403, f"The sandbox has no access to {name}.")
    try:
        matches = matcher(str(body.get("filter") or ""))
    except FilterError as error:
        raise GoogleError(400, str(error)) from error
    newest_first = "desc" in str(body.get("orderBy") or "")
    direction = "DESC" if newest_first else "ASC"
    query = f"SELECT body FROM log_entries ORDER BY timestamp {direction}, insert_id {direction}"  # noqa: S608 - constants
    found = [entry for row in database.all(query) if matches(entry := json.loads(row["body"]))]
    wanted = {key: str(body[key]) for key in ("pageSize", "pageToken") if body.get(key)}
    shown, following = page(found, wanted)
    answer: dict[str, Any] = {"entries": shown} if shown else {}
    return {**answer, "nextPageToken": following} if following else answer
