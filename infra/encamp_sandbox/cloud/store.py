"""Resources of the sandbox's Google Cloud under their full names, as their APIs show them.

A name is Google's own, such as ``projects/P/locations/L/clusters/C/nodePools/N``, a kind is its collection in the
singular (``nodePool``), a body is the resource in the API's JSON without what every read computes. Buckets and objects
are the storage server's and not kept here.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import aborted, already_exists, not_found

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from encamp_sandbox.database import Database

#: Fields that hold labels, by the APIs' names.
_LABELS = ("labels", "resourceLabels", "userLabels")


@dataclass(frozen=True)
class CloudResource:
    """One resource.

    Attributes:
        name: full name.
        kind: singular of its collection.
        body: its own fields in the API's JSON.
        created: RFC 3339, UTC.
        etag: changes with every change of the body.
    """

    name: str
    kind: str
    body: dict[str, Any]
    created: str
    updated: str
    etag: str

    @property
    def short_name(self) -> str:
        """The last part of the full name."""
        return self.name.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The full name without the last collection and name."""
        return self.name.rsplit("/", 2)[0]

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, whatever the API calls them."""
        return next((dict(self.body[key]) for key in _LABELS if self.body.get(key)), {})


def timestamp() -> str:
    """Return the time now, RFC 3339 with microseconds, UTC: all of one width, so that text order is time order."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class CloudStore:
    """The resources of one sandbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, kind: str, name: str, body: Mapping[str, Any]) -> CloudResource:
        """Store a new resource.

        Raises:
            GoogleError: 409, the name is taken.
        """
        now = timestamp()
        values = (name, kind, json.dumps(body), now, now, secrets.token_hex(8))
        with self._database.transaction() as change:
            if change.execute("SELECT 1 FROM resources WHERE name = ?", (name,)).fetchone():
                raise already_exists(name)
            change.execute("INSERT INTO resources VALUES (?, ?, ?, ?, ?, ?)", values)
        return self.get(name)

    def find(self, name: str) -> CloudResource | None:
        """Return the resource of a full name, or None."""
        row = self._database.one("SELECT * FROM resources WHERE name = ?", name)
        return _resource(row) if row else None

    def get(self, name: str) -> CloudResource:
        """Return the resource of a full name.

        Raises:
            GoogleError: 404.
        """
        found = self.find(name)
        if found is None:
            raise not_found(name)
        return found

    def all_of(self, kind: str, parent: str = "") -> list[CloudResource]:
        """Return every resource of a kind below a parent's full name, by name."""
        below = f"{parent}/" if parent else ""
        query = "SELECT * FROM resources WHERE kind = ? AND substr(name, 1, ?) = ? ORDER BY name"
        return [_resource(row) for row in self._database.all(query, kind, len(below), below)]

    def children(self, name: str) -> list[CloudResource]:
        """Return every resource whose full name lies below this one."""
        query = "SELECT * FROM resources WHERE substr(name, 1, ?) = ? ORDER BY name"
        return [_resource(row) for row in self._database.all(query, len(name) + 1, f"{name}/")]

    def update(self, name: str, body: Mapping[str, Any], *, etag: str | None = None) -> CloudResource:
        """Replace a resource's body.

        Raises:
            GoogleError: 404; 409 if ``etag`` is not the present one.
        """
        with self._database.transaction() as change:
            present = self.get(name)
            if etag not in (None, "", present.etag):
                raise aborted(f"The etag of {name} has changed.")
            change.execute(
                "UPDATE resources SET body = ?, updated = ?, etag = ? WHERE name = ?",
                (json.dumps(body), timestamp(), secrets.token_hex(8), name),
            )
        return self.get(name)

    def merge(self, name: str, fields: Mapping[str, Any]) -> CloudResource:
        """Set some fields of a resource's body, the others stay."""
        with self._database.transaction():
            return self.update(name, {**self.get(name).body, **fields})

    def delete(self, name: str) -> None:
        """Delete a resource and all that lies below it, with their policies.

        Raises:
            GoogleError: 404.
        """
        with self._database.transaction() as change:
            self.get(name)
            for below in (name, *(child.name for child in self.children(name))):
                change.execute("DELETE FROM resources WHERE name = ?", (below,))
                change.execute("DELETE FROM policies WHERE resource = ?", (below,))


def _resource(row: sqlite3.Row) -> CloudResource:
    return CloudResource(
        name=row["name"],
        kind=row["kind"],
        body=json.loads(row["body"]),
        created=row["created"],
        updated=row["updated"],
        etag=row["etag"],
    )
