"""The logging API (v2): entries written, and listed by the filters that encamp and gcloud send.

Source: cloud.google.com/logging/docs/reference/v2/rest/v2/entries.

Belief: logging-same-entry-once.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp.cloud.log_filter import FilterError, Matcher, matcher
from encamp.sandbox.cloud.calls import no_such_method, page
from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp.sandbox.cloud.access import Access
    from encamp.sandbox.cloud.calls import Call
    from encamp.sandbox.database import Database

_KEPT = 100_000


class LoggingApi:
    """Serves logging.googleapis.com. The newest hundred thousand entries are kept."""

    def __init__(self, database: Database, access: Access) -> None:
        self._database = database
        self._access = access

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        if call.method == "POST" and call.plain == ("v2", "entries"):
            body = await call.json()
            if call.verb == "write":
                self._access.require(call.principal, "logging.logEntries.create")
                self.write(body)
                return JSONResponse({})
            if call.verb == "list":
                self._access.require(call.principal, "logging.logEntries.list")
                return JSONResponse(self.find(body))
        raise no_such_method(call)

    def write(self, body: dict[str, Any]) -> None:
        """Take entries in, except those that the project's exclusions keep out."""
        shared = {key: body[key] for key in ("logName", "resource") if body.get(key)}
        excluded = self._excluded()
        with self._database.transaction() as change:
            for given in body.get("entries") or ():
                entry = {**shared, **given, "labels": {**(body.get("labels") or {}), **(given.get("labels") or {})}}
                name = str(entry.get("logName") or "")
                if not name.startswith(f"projects/{self._access.project}/logs/"):
                    raise GoogleError(400, f"Invalid log name: {name or '(none)'}.")
                received = timestamp()
                if any(matches(entry) for matches in excluded):
                    continue
                entry["timestamp"] = entry.get("timestamp") or received
                entry["insertId"] = entry.get("insertId") or f"{received}-{secrets.token_hex(4)}"
                entry["receiveTimestamp"] = received
                change.execute(
                    "INSERT OR IGNORE INTO log_entries (log_name, timestamp, insert_id, body) VALUES (?, ?, ?, ?)",
                    (name, entry["timestamp"], entry["insertId"], json.dumps(entry)),
                )
            change.execute("DELETE FROM log_entries WHERE id <= (SELECT MAX(id) FROM log_entries) - ?", (_KEPT,))

    def _excluded(self) -> list[Matcher]:
        """Give what the project's own bucket of logs does not take in: its exclusions, those that are not off."""
        every = [one.body["inputs"] for one in self._access.store.all_of("logExclusion")]
        return [matcher(str(inputs["filter"])) for inputs in every if not inputs.get("disabled")]

    def find(self, body: dict[str, Any]) -> dict[str, Any]:
        """Give a page of the entries that a filter matches."""
        for name in body.get("resourceNames") or [f"projects/{self._access.project}"]:
            if str(name).split("/")[:2] != ["projects", self._access.project]:
                raise GoogleError(403, f"The sandbox has no access to {name}.")
        try:
            matches = matcher(str(body.get("filter") or ""))
        except FilterError as error:
            raise GoogleError(400, str(error)) from error
        newest_first = "desc" in str(body.get("orderBy") or "")
        direction = "DESC" if newest_first else "ASC"
        query = f"SELECT body FROM log_entries ORDER BY timestamp {direction}, insert_id {direction}"  # noqa: S608 - constants
        found = [entry for row in self._database.all(query) if matches(entry := json.loads(row["body"]))]
        wanted = {key: str(body[key]) for key in ("pageSize", "pageToken") if body.get(key)}
        shown, following = page(found, wanted)
        answer: dict[str, Any] = {"entries": shown} if shown else {}
        return {**answer, "nextPageToken": following} if following else answer
